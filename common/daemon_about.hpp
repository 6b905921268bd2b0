// DaemonAbout: what the running daemon says of itself, for `nodestage doctor`: the file `about` in
// its runtime directory, readable by all, written at its start and at each reload. One NAME=VALUE a
// line; names that a reader does not know are passed over.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace nodestage {

struct DaemonAbout {
  std::string version;                 // version=
  std::string tmpdir_root;             // tmpdir=      where the job directories are
  std::uint64_t leave_free_bytes = 0;  // leave_free=  staging.leave_free
  std::uint64_t epilog_wait_s = 0;     // epilog_wait= stageout.epilog_wait
  std::string cgroups_missing;  // no_cgroups=  controllers that workers lack; "off" by setting

  bool operator==(const DaemonAbout&) const = default;
};

std::string encode_about(const DaemonAbout& about);
DaemonAbout decode_about(std::string_view text);

}  // namespace nodestage

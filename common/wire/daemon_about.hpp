// DaemonAbout: what the running daemon reports about itself to `nodestage doctor` and `plan`: the
// file `about` in its runtime directory, readable by all, written at its start and at each reload.
// One NAME=VALUE per line; a reader ignores names that it does not know.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace nodestage {

// Whether its workers can confine themselves (Landlock, seccomp), as a worker that tried reported.
struct SandboxState {
  enum class Kind {
    unknown,  // not tried yet
    holds,    // all of it
    lacking,  // the kernel lacks a part; `text` says what is missing
    fault,    // the kernel supports it, but a worker could not enter it; `text` says why
  };
  Kind kind = Kind::unknown;
  std::string text;  // one line

  bool operator==(const SandboxState&) const = default;
};

// By what the notes between a job's nodes are proved, as the daemon's signer tried within the last
// minute: it made a credential and opened it.
struct CredentialState {
  enum class Kind {
    unknown,  // not tried yet
    holds,    // `text` says by what
    fault,    // `text` says why there are none
    off,      // peer.barrier
  };
  Kind kind = Kind::unknown;
  std::string text;  // one line

  bool operator==(const CredentialState&) const = default;
};

struct DaemonAbout {
  std::string version;                 // version=
  std::string tmpdir_root;             // tmpdir=      the directory of the job directories
  std::uint64_t leave_free_bytes = 0;  // leave_free=  staging.leave_free
  std::uint64_t epilog_wait_s = 0;     // epilog_wait= stageout.epilog_wait
  std::string cgroups_missing;   // no_cgroups=  controllers that workers lack; "off": a setting
  bool cgroups_in_unit = false;  // cgroups_in_unit= 1: workers live below the daemon's own unit
  SandboxState sandbox;  // sandbox=     "holds", "lacking: TEXT", "fault: TEXT"; "": unknown
  bool sandbox_required = false;       // sandbox_required=  worker.sandbox; 0 or 1
  std::uint64_t least_interval_s = 0;  // least_interval=  stageout.least_interval; 0: not known
  CredentialState credentials;  // credentials= "holds: TEXT", "fault: TEXT", "off"; "": unknown

  bool operator==(const DaemonAbout&) const = default;
};

std::string encode_about(const DaemonAbout& about);
DaemonAbout decode_about(std::string_view text);

}  // namespace nodestage

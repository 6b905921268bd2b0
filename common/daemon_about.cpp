#include "common/daemon_about.hpp"

#include <algorithm>
#include <charconv>

namespace nodestage {
namespace {

std::uint64_t number(std::string_view text) {
  std::uint64_t value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  return read.ec == std::errc() ? value : 0;
}

void set(DaemonAbout& about, std::string_view name, std::string_view value) {
  if (name == "version") about.version = value;
  if (name == "tmpdir") about.tmpdir_root = value;
  if (name == "leave_free") about.leave_free_bytes = number(value);
  if (name == "epilog_wait") about.epilog_wait_s = number(value);
  if (name == "no_cgroups") about.cgroups_missing = value;
}

}  // namespace

std::string encode_about(const DaemonAbout& about) {
  return "version=" + about.version + "\ntmpdir=" + about.tmpdir_root +
         "\nleave_free=" + std::to_string(about.leave_free_bytes) +
         "\nepilog_wait=" + std::to_string(about.epilog_wait_s) +
         "\nno_cgroups=" + about.cgroups_missing + "\n";
}

DaemonAbout decode_about(std::string_view text) {
  DaemonAbout about;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const std::size_t equals = line.find('=');
    if (equals != std::string_view::npos) {
      set(about, line.substr(0, equals), line.substr(equals + 1));
    }
  }
  return about;
}

}  // namespace nodestage

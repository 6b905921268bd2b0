#include "daemon/worker/sandbox/privileges.hpp"

#include <fcntl.h>

#include <charconv>
#include <vector>

#include "common/os/file.hpp"

namespace nodestage {
namespace {

// Returns the numbers after "KEY:"; none if the line is missing.
std::vector<std::uint64_t> numbers(std::string_view status, const std::string& key, int base) {
  const std::size_t line = status.find("\n" + key + ":");
  if (line == std::string_view::npos) return {};
  std::string_view rest = status.substr(line + key.size() + 2);
  rest = rest.substr(0, rest.find('\n'));
  std::vector<std::uint64_t> values;
  while (true) {
    rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
    std::uint64_t value = 0;
    const auto end = std::from_chars(rest.data(), rest.data() + rest.size(), value, base);
    if (end.ec != std::errc()) return values;
    values.push_back(value);
    rest.remove_prefix(static_cast<std::size_t>(end.ptr - rest.data()));
  }
}

Status verify_ids(std::string_view status, const std::string& key, std::uint32_t wanted) {
  if (wanted == 0) return Error{EPERM, "the order's " + key + " is 0"};
  if (numbers(status, key, 10) == std::vector<std::uint64_t>(4, wanted)) return {};
  return Error{EPERM, "a " + key + " of this process is not " + std::to_string(wanted)};
}

}  // namespace

Status verify_process_status(std::string_view status, const OrderHead& order) {
  TRY(verify_ids(status, "Uid", order.uid));
  TRY(verify_ids(status, "Gid", order.gid));
  for (const char* set : {"CapInh", "CapPrm", "CapEff", "CapAmb"}) {
    if (numbers(status, set, 16) != std::vector<std::uint64_t>{0}) {
      return Error{EPERM, std::string("the capability set ") + set + " is not empty"};
    }
  }
  if (numbers(status, "NoNewPrivs", 10) != std::vector<std::uint64_t>{1}) {
    return Error{EPERM, "no_new_privs is not set"};
  }
  return {};
}

Status verify_privileges(const OrderHead& order) {
  TRY_ASSIGN(const std::string status, read_file(AT_FDCWD, "/proc/self/status", 64 * 1024));
  return verify_process_status(status, order);
}

}  // namespace nodestage

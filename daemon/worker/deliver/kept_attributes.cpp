#include "daemon/worker/deliver/kept_attributes.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace nodestage {
namespace {

bool is_refused(int code) {
  return code == EPERM || code == EACCES || code == ENOTSUP || code == ENOSYS || code == EINVAL;
}

}  // namespace

bool is_copied_time(const timespec& there, const timespec& time) {
  constexpr std::array<long, 5> k_units = {1, 100, 1'000, 1'000'000, 1'000'000'000};
  return there.tv_sec == time.tv_sec && std::any_of(k_units.begin(), k_units.end(), [&](long unit) {
           return there.tv_nsec == time.tv_nsec - time.tv_nsec % unit;
         });
}

Status KeptAttributes::keep(const char* what, int code) {
  if (code == 0) return {};
  if (!is_refused(code)) return system_error(std::string("cannot set the ") + what, code);
  if (!std::exchange(is_noted_, true))
    report_.add_note(std::string("the target does not keep every mode and time: ") +
                     std::strerror(code));
  return {};
}

}  // namespace nodestage

#include "daemon/root/basis/refusal_log.hpp"

#include <chrono>

#include "common/text/human.hpp"
#include "daemon/root/basis/log.hpp"

namespace nodestage {
namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned k_lines_a_period = 20;
constexpr std::chrono::seconds k_period{10};

struct Period {
  Clock::time_point begun{};
  unsigned written = 0;
  unsigned silent = 0;
};

}  // namespace

void log_refusal(const std::string& who, const std::string& what) {
  static Period period;  // the daemon has one thread
  if (Clock::now() - period.begun >= k_period) {
    if (period.silent > 0) log::warn("{} more refusals were not logged", period.silent);
    period = {Clock::now(), 0, 0};
  }
  if (++period.written > k_lines_a_period) {
    ++period.silent;
    return;
  }
  log::warn("{}: refused: {}", printable(who), printable(what));
}

}  // namespace nodestage

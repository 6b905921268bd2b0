#include "daemon/root/basis/log_limit.hpp"

namespace nodestage {

using namespace std::chrono_literals;

// Forgets the users whose minute is over, when a further one comes.
LogLimit::Minute& LogLimit::minute_of(uid_t user, Weight weight, Moment now) {
  const std::pair key{user, weight};
  if (minutes_.count(key) == 0)
    std::erase_if(minutes_, [&](const auto& item) {
      return item.second.left_out == 0 && now - item.second.begun >= 1min;
    });
  return minutes_.try_emplace(key, Minute{now}).first->second;
}

LogLimit::Verdict LogLimit::ask(uid_t user, Weight weight, std::size_t bytes, Moment now) {
  Minute& minute = minute_of(user, weight, now);
  Verdict verdict;
  if (now - minute.begun >= 1min) {
    verdict.left_out = minute.left_out;
    minute = {now};
  }
  verdict.is_admitted = minute.bytes + bytes <= k_log_bytes_a_minute;
  verdict.is_admitted ? minute.bytes += bytes : ++minute.left_out;
  return verdict;
}

}  // namespace nodestage

#include "daemon/root/table/turns.hpp"

namespace nodestage {
namespace {

constexpr std::chrono::seconds k_pause{1};

}  // namespace

void Turns::ask(std::uint32_t uid, const JobKey& key, Begin begin) {
  User& user = users_[uid];
  if (user.at_work.count(key) > 0 || !user.waiting.insert(key).second) return;
  user.queue.emplace_back(key, std::move(begin));
  go_on(uid);
}

void Turns::end(std::uint32_t uid, const JobKey& key) {
  const auto user = users_.find(uid);
  if (user != users_.end() && user->second.at_work.erase(key) > 0) go_on(uid);
}

bool Turns::leave(std::uint32_t uid, const JobKey& key) {
  const auto user = users_.find(uid);
  if (user == users_.end() || user->second.waiting.erase(key) == 0) return false;
  std::erase_if(user->second.queue, [&key](const auto& waiting) { return waiting.first == key; });
  return true;
}

bool Turns::is_waiting(std::uint32_t uid, const JobKey& key) const {
  const auto user = users_.find(uid);
  return user != users_.end() && user->second.waiting.count(key) > 0;
}

void Turns::go_on(std::uint32_t uid) {
  User& user = users_[uid];
  if (user.is_paused || user.is_looked_at) return;
  user.is_looked_at = true;
  while (!user.is_paused && !user.queue.empty() && user.at_work.size() < of_one_user_) {
    const auto [key, begin] = std::move(user.queue.front());
    user.queue.pop_front();
    user.waiting.erase(key);
    user.at_work.insert(key);
    const Begun begun = begin();
    if (begun == Begun::yes) continue;
    user.at_work.erase(key);
    if (begun == Begun::no) continue;
    user.is_paused = true;
    loop_.after(k_pause, [this, uid] {
      users_[uid].is_paused = false;
      go_on(uid);
    });
  }
  user.is_looked_at = false;
  if (user.queue.empty() && user.at_work.empty() && !user.is_paused) users_.erase(uid);
}

}  // namespace nodestage

#include "daemon/root/staging/first_steps.hpp"

#include <algorithm>
#include <set>
#include <vector>

namespace nodestage {
namespace {

// There is one look for all jobs that wait, and ever fewer while none starts to wait.
constexpr std::chrono::milliseconds k_least_pause{200};
constexpr std::chrono::milliseconds k_most_pause{2000};
constexpr unsigned k_most_lost = 3;

JobOfUser job_of(const JobRecord& record) { return {record.begin.job, record.begin.uid}; }

}  // namespace

void FirstSteps::wait(const JobRecord& record) {
  const JobKey key = record.key();
  if (lost_[key] > k_most_lost) return ask_slurm(record);
  waiting_[key] = deps_.loop.now() + std::chrono::seconds(deps_.config.memory.step_wait_s);
  pause_ = k_least_pause;
  look_at(std::max(deps_.loop.now(), looked_ + k_least_pause));
}

void FirstSteps::look_at(Clock::time_point due) {
  if (timer_ && due_ <= due) return;
  deps_.loop.cancel(timer_);
  due_ = due;
  const auto delay = std::chrono::ceil<std::chrono::milliseconds>(due - deps_.loop.now());
  timer_ = deps_.loop.after(delay, [this] {
    timer_.reset();
    look();
  });
}

void FirstSteps::look() {
  looked_ = deps_.loop.now();
  std::erase_if(waiting_, [this](const auto& item) { return queued(item.first) == nullptr; });
  std::set<JobOfUser> jobs;
  std::vector<JobKey> keys;
  for (const auto& [key, give_up] : waiting_) {
    if (!give_up) continue;
    keys.push_back(key);
    jobs.insert(job_of(*queued(key)));
  }
  if (keys.empty()) return;
  const bool has_area = deps_.areas.memory_fault().empty();
  const JobCgroups cgroups = has_area ? deps_.workers.job_cgroups(jobs) : JobCgroups();
  Clock::time_point next = looked_ + pause_;
  bool is_waiting = false;
  for (const JobKey& key : keys) {
    const JobRecord* record = queued(key);
    const auto job = waiting_.find(key);
    if (record == nullptr || job == waiting_.end() || !job->second) continue;
    if (!has_area) {
      found(key, 0);
    } else if (cgroups.contains(job_of(*record))) {
      found(key, std::nullopt);
    } else if (deps_.loop.now() >= *job->second) {
      ask_slurm(*record);
    } else {
      is_waiting = true;
      next = std::min(next, *job->second);
    }
  }
  if (is_waiting) look_at(next);
  pause_ = std::min(pause_ * 2, k_most_pause);
}

void FirstSteps::ask_slurm(const JobRecord& record) {
  const JobKey key = record.key();
  waiting_[key].reset();
  const auto take = [this, key, cpus = record.begin.cpus](std::string_view output) {
    found(key, memory_of_job(key.job, cpus, output));
  };
  questions_.ask(std::to_string(key.job), take);
}

void FirstSteps::found(const JobKey& key, std::optional<std::uint64_t> bytes) {
  waiting_.erase(key);
  const JobRecord* record = queued(key);
  if (record == nullptr) return;
  memory_of_[key] = bytes;
  deps_.events.done(key, Fact::step_found);
}

const JobRecord* FirstSteps::queued(const JobKey& key) const {
  const JobRecord* record = deps_.table.find(key);
  return record == nullptr || record->state != JobState::queued || record->ended ? nullptr : record;
}

std::string FirstSteps::cgroup_of(const JobRecord& record) const {
  const JobOfUser job = job_of(record);
  const JobCgroups found = deps_.workers.job_cgroups({job});
  const auto own = found.find(job);
  return own == found.end() ? "" : own->second;
}

std::uint64_t FirstSteps::memory_of(const JobKey& key) const {
  const auto known = memory_of_.find(key);
  return known == memory_of_.end() ? 0 : known->second.value_or(0);
}

bool FirstSteps::had_step(const JobKey& key) const {
  const auto known = memory_of_.find(key);
  return known != memory_of_.end() && !known->second;
}

bool FirstSteps::lost(const JobKey& key) { return ++lost_[key] <= k_most_lost; }

void FirstSteps::forget(const JobKey& key) {
  waiting_.erase(key);
  memory_of_.erase(key);
  lost_.erase(key);
}

}  // namespace nodestage

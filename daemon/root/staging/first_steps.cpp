#include "daemon/root/staging/first_steps.hpp"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace nodestage {
namespace {

// There is one look for all jobs that wait, and ever fewer while none starts to wait.
constexpr std::chrono::milliseconds k_least_pause{200};
constexpr std::chrono::milliseconds k_most_pause{2000};
constexpr unsigned k_most_lost = 3;

JobOfUser job_of(const JobRecord& record) { return {record.begin.job, record.begin.uid}; }

}  // namespace

FirstSteps::FirstSteps(Loop& loop, const Config& config, const Areas& areas, JobTable& table,
                       const JobWorkers& workers, OnFound on_found)
    : loop_(loop),
      config_(config),
      areas_(areas),
      table_(table),
      workers_(workers),
      on_found_(std::move(on_found)) {}

void FirstSteps::wait(const JobRecord& record) {
  const JobKey key = record.key();
  if (lost_[key] > k_most_lost) return ask_slurm(record);
  waiting_[key] = loop_.now() + std::chrono::seconds(config_.memory.step_wait_s);
  pause_ = k_least_pause;
  look_at(std::max(loop_.now(), looked_ + k_least_pause));
}

void FirstSteps::look_at(Clock::time_point due) {
  if (timer_ && due_ <= due) return;
  if (timer_) loop_.cancel(*timer_);
  due_ = due;
  const auto delay = std::chrono::ceil<std::chrono::milliseconds>(due - loop_.now());
  timer_ = loop_.after(delay, [this] {
    timer_.reset();
    look();
  });
}

void FirstSteps::look() {
  looked_ = loop_.now();
  std::erase_if(waiting_, [this](const auto& item) { return queued(item.first) == nullptr; });
  std::set<JobOfUser> jobs;
  std::vector<JobKey> keys;
  for (const auto& [key, give_up] : waiting_) {
    if (!give_up) continue;
    keys.push_back(key);
    jobs.insert(job_of(*queued(key)));
  }
  if (keys.empty()) return;
  const bool has_area = areas_.memory_fault().empty();
  const JobCgroups cgroups = has_area ? workers_.job_cgroups(jobs) : JobCgroups();
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
    } else if (loop_.now() >= *job->second) {
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
  questions_.ask(key.job, [this, key, cpus = record.begin.cpus](std::string_view output) {
    found(key, memory_of_job(key.job, cpus, output));
  });
}

void FirstSteps::found(const JobKey& key, std::optional<std::uint64_t> bytes) {
  waiting_.erase(key);
  const JobRecord* record = queued(key);
  if (record == nullptr) return;
  memory_of_[key] = bytes;
  on_found_(key);
}

const JobRecord* FirstSteps::queued(const JobKey& key) const {
  const JobRecord* record = table_.find(key);
  return record == nullptr || record->state != JobState::queued || record->ended ? nullptr : record;
}

std::string FirstSteps::cgroup_of(const JobRecord& record) const {
  const JobOfUser job = job_of(record);
  const JobCgroups found = workers_.job_cgroups({job});
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

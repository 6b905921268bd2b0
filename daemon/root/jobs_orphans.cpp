// Orphans: jobs of which no epilog came, or none that reached the daemon.
//
// A step that lives on this node is proof that its job does. Else, when the prolog's marker is
// gone, the node was rebooted or the epilog's `end` was lost. Else slurmd may have died with the
// job, or runs no step here: Slurm is asked, and believed when it says twice that this run is over.
#include <unistd.h>

#include "daemon/root/jobs.hpp"
#include "daemon/root/log.hpp"
#include "daemon/root/slurm_steps.hpp"

namespace nodestage {
namespace {

constexpr unsigned k_answers_needed = 2;

}  // namespace

std::string Jobs::marker_of(const JobRecord& record) const {
  const std::string& socket = at_.config.daemon.socket;
  return socket.substr(0, socket.rfind('/')) + "/jobs/" + std::to_string(record.begin.job);
}

// The prolog writes the marker before it tells `begin`; the epilog removes it after `end`.
bool Jobs::has_marker(const JobRecord& record) const {
  return ::access(marker_of(record).c_str(), F_OK) == 0 || errno != ENOENT;
}

// What is known of a last step says nothing of a job that was cut off.
void Jobs::mark_orphan(Job& job, const char* why) {
  log::warn(about(job.record), "has ended without an epilog: {}", why);
  job.record.ended = true;
  if (!job.record.batch_status) job.record.last_status.reset();
  save(job);
}

void Jobs::end_orphan(Job& job, const char* why) {
  mark_orphan(job, why);
  ::unlink(marker_of(job.record).c_str());
  tell_outcome(job);
  stop_staging(job);
}

void Jobs::watch_orphans() {
  const auto interval = std::chrono::seconds(at_.config.daemon.orphan_check_s);
  if (orphan_timer_) at_.loop.cancel(*orphan_timer_);
  orphan_timer_ = at_.loop.after(interval, [this] {
    orphan_timer_.reset();
    check_orphans();
    at_.trash.try_again();
    watch_orphans();
  });
}

void Jobs::check_orphans() {
  std::vector<JobKey> unmarked;
  std::vector<JobKey> marked;
  for (const auto& [key, job] : jobs_) {
    if (job.record.ended || !is_live(job.record)) continue;
    (has_marker(job.record) ? marked : unmarked).push_back(key);
  }
  if (unmarked.empty() && marked.empty()) return;
  const std::set<std::uint32_t> running = jobs_with_steps();
  std::erase_if(marked, [&](const JobKey& key) { return running.count(key.job) > 0; });
  for (const JobKey& key : unmarked) {
    if (running.count(key.job) == 0) end_orphan(*find(key), k_without_marker);
  }
  if (at_.slurm.busy()) return;
  to_ask_ = std::move(marked);
  ask_next();
}

void Jobs::ask_next() {
  while (!to_ask_.empty()) {
    const JobKey key = to_ask_.back();
    to_ask_.pop_back();
    const Job* job = find(key);
    if (job == nullptr || job->record.ended || !is_live(job->record)) continue;
    const Status asked =
        at_.slurm.ask(key, [this, key](SlurmAnswer answer) { take_answer(key, answer); });
    if (!asked) log::error("Slurm cannot be asked: {}", asked.error().what);
    return;
  }
}

void Jobs::take_answer(const JobKey& key, SlurmAnswer answer) {
  const bool is_unclear = answer == SlurmAnswer::unclear || answer == SlurmAnswer::none;
  if (is_unclear)
    log::info("Slurm ({}) gave no clear answer about job {}; it is asked again later",
              at_.config.slurm.scontrol, key.job);
  if (answer == SlurmAnswer::none) return to_ask_.clear();
  if (Job* job = find(key);
      !is_unclear && job != nullptr && !job->record.ended && is_live(job->record)) {
    job->gone_answers = answer == SlurmAnswer::gone ? job->gone_answers + 1 : 0;
    if (job->gone_answers >= k_answers_needed) end_orphan(*job, "Slurm says that it is over");
  }
  ask_next();
}

}  // namespace nodestage

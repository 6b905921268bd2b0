#include "daemon/root/jobs/orphans.hpp"

#include <unistd.h>

#include <set>
#include <utility>

#include "daemon/root/basis/log.hpp"

namespace nodestage {
namespace {

constexpr unsigned k_answers_needed = 2;
constexpr const char* k_without_marker =
    "the node was rebooted, or the epilog did not reach the daemon";

bool may_be_orphan(const JobRecord& record) { return !record.ended && is_live(record); }

}  // namespace

std::string Orphans::marker_of(const JobRecord& record) const {
  const std::string& socket = deps_.config.daemon.socket;
  return socket.substr(0, socket.rfind('/')) + "/jobs/" + std::to_string(record.begin.job);
}

// The prolog writes the marker before it sends `begin`; the epilog removes it after `end`.
bool Orphans::has_marker(const JobRecord& record) const {
  return ::access(marker_of(record).c_str(), F_OK) == 0 || errno != ENOENT;
}

// The status of a last step says nothing about a job that was cut off.
void Orphans::mark(JobRecord& record, const char* why) {
  log::warn(about(record), "has ended without an epilog: {}", why);
  record.ended = true;
  if (!record.batch_status) record.last_status.reset();
  deps_.table.save(record);
}

void Orphans::found(JobRecord& record, const char* why) {
  mark(record, why);
  ::unlink(marker_of(record).c_str());
  deps_.events.done(record.key(), Fact::ended);
}

void Orphans::check_old(JobRecord& record) {
  if (may_be_orphan(record) && !has_marker(record) &&
      jobs_with_steps().count(record.begin.job) == 0)
    mark(record, k_without_marker);
}

void Orphans::watch() {
  deps_.loop.cancel(timer_);
  timer_ = deps_.loop.after(std::chrono::seconds(deps_.config.daemon.orphan_check_s), [this] {
    timer_.reset();
    check();
    watch();
  });
}

void Orphans::check() {
  std::vector<JobKey> unmarked;
  std::vector<JobKey> marked;
  for (const auto& [key, record] : deps_.table.all())
    if (may_be_orphan(record)) (has_marker(record) ? marked : unmarked).push_back(key);
  std::erase_if(gone_answers_, [this](const auto& item) { return !deps_.table.find(item.first); });
  if (unmarked.empty() && marked.empty()) return;
  const std::set<std::uint32_t> running = jobs_with_steps();
  std::erase_if(marked, [&](const JobKey& key) { return running.count(key.job) > 0; });
  for (const JobKey& key : unmarked) {
    JobRecord* record = deps_.table.find(key);
    if (record != nullptr && running.count(key.job) == 0) found(*record, k_without_marker);
  }
  if (slurm_.busy()) return;
  to_ask_ = std::move(marked);
  ask_next();
}

void Orphans::ask_next() {
  while (!to_ask_.empty()) {
    const JobKey key = to_ask_.back();
    to_ask_.pop_back();
    const JobRecord* record = deps_.table.find(key);
    if (record == nullptr || !may_be_orphan(*record)) continue;
    const Status asked =
        slurm_.ask(key, [this, key](SlurmAnswer answer) { take_answer(key, answer); });
    if (!asked) log::error("Slurm cannot be asked: {}", asked.error().what);
    return;
  }
}

void Orphans::take_answer(const JobKey& key, SlurmAnswer answer) {
  const bool is_unclear = answer == SlurmAnswer::unclear || answer == SlurmAnswer::none;
  if (is_unclear)
    log::info("Slurm ({}) gave no clear answer about job {}; it is asked again later",
              deps_.config.slurm.scontrol, key.job);
  if (answer == SlurmAnswer::none) return to_ask_.clear();
  JobRecord* record = deps_.table.find(key);
  if (!is_unclear && record != nullptr && may_be_orphan(*record)) {
    unsigned& answers = gone_answers_[key];
    answers = answer == SlurmAnswer::gone ? answers + 1 : 0;
    if (answers >= k_answers_needed) found(*record, "Slurm says that it is over");
  }
  ask_next();
}

}  // namespace nodestage

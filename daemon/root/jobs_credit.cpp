// Slurm charges staging to the job's time limit; with credit.enabled the first node adds it again.
//
// What is owed is journaled with the state `ready`, so a restarted daemon asks on. `credited` is
// journaled before Slurm is told: a daemon that dies in between credits not at all, never twice.
#include <algorithm>

#include "common/text/human.hpp"
#include "daemon/root/hold.hpp"
#include "daemon/root/jobs.hpp"
#include "daemon/root/log.hpp"

namespace nodestage {
namespace {

constexpr std::chrono::seconds k_first_pause{1};
constexpr std::size_t k_most_looks = 1000;
constexpr unsigned k_most_doublings = 8;  // about four minutes

}  // namespace

// Before the record is saved. Not for a job that ran while it was staged (--stage-wait=none).
void Jobs::may_run(Job& job) {
  if (!std::exchange(job.record.may_have_run, true)) owe_credit(job);
}

// A user could stop the staging and work meanwhile in a step that claims to look only.
void Jobs::begin_look(Job& job, std::uint32_t step) {
  if (job.use.steps.size() >= k_most_looks && job.use.steps.count(step) == 0) return;
  ++job.use.steps[step];
  use_changed(job);
}

void Jobs::end_look(Job& job, std::uint32_t step) {
  const auto found = job.use.steps.find(step);
  if (found == job.use.steps.end()) return;  // of the last daemon
  if (--found->second == 0) job.use.steps.erase(found);
  use_changed(job);
}

void Jobs::use_changed(Job& job) {
  count_use(job);
  const bool is_told = is_shared(job.record) && !is_on_first_node(job.record);
  if (is_told && job.record.verdict == Verdict::open && !at_.peers.off())
    report(job, own_state(job));
}

void Jobs::count_use(Job& job) {
  Use& use = job.use;
  const bool is_used = !use.steps.empty() || !use.nodes.empty();
  if (is_used && !use.since) use.since = Clock::now();
  if (is_used || !use.since) return;
  use.time += Clock::now() - *use.since;
  use.since.reset();
}

void Jobs::owe_credit(Job& job) {
  JobRecord& record = job.record;
  const Config::Credit& settings = at_.config.credit;
  if (!settings.enabled || !is_on_first_node(record) || record.state != JobState::ready ||
      record.ended || record.credited)
    return;
  if (worker_status(job, WorkerTask::stage).items.empty()) return;  // results only, say
  const std::uint64_t now = epoch_now();
  const auto used =
      job.use.time + (job.use.since ? Clock::now() - *job.use.since : Clock::duration());
  const auto used_s =
      static_cast<std::uint64_t>(std::chrono::ceil<std::chrono::seconds>(used).count());
  const std::uint64_t seconds = now - std::min(now, record.begun_at + used_s);
  record.credit_minutes = credit_minutes(seconds, settings);
  if (record.credit_minutes == 0) {
    log::info(about(record), "nothing is added to its time limit: it was held for {} s only",
              seconds);
    return;
  }
  queue_credit(record.key(), {});
}

void Jobs::queue_credit(const JobKey& key, std::chrono::milliseconds delay) {
  if (find_owed(key) == nullptr) return;
  at_.loop.after(delay, [this, key] {
    to_credit_.push_back(key);
    credit_next();
  });
}

Jobs::Job* Jobs::find_owed(const JobKey& key) {
  Job* job = find(key);
  if (job == nullptr || !at_.config.credit.enabled) return nullptr;
  const JobRecord& record = job->record;
  const bool owed = record.credit_minutes > 0 && !record.credited;
  return owed && !record.ended && is_live(record) ? job : nullptr;
}

// One job at a time.
void Jobs::credit_next() {
  while (!to_credit_.empty() && !scontrol_.busy()) {
    const JobKey key = to_credit_.front();
    to_credit_.pop_front();
    if (find_owed(key) != nullptr) ask_limit(key, std::to_string(key.job));
  }
}

void Jobs::ask_limit(const JobKey& key, const std::string& id) {
  const auto take = [this, key, id](const Scontrol::Output& output) {
    take_limit(key, id, read_job_limit(key, output.text));
    credit_next();
  };
  if (const Status asked = scontrol_.run({"--oneliner", "show", "job", id}, take); !asked)
    credit_later(*find(key), asked.error().what);
}

void Jobs::take_limit(const JobKey& key, const std::string& asked, const JobLimit& limit) {
  Job* job = find_owed(key);
  if (job == nullptr) return;
  switch (limit.answer) {
    case JobLimit::Answer::known:
      return ask_max_time(key, limit);
    case JobLimit::Answer::ask_for:
      if (limit.id != asked) return ask_limit(key, limit.id);
      return forgo_credit(*job, "Slurm's answer about the job is not clear");
    case JobLimit::Answer::later:
      return credit_later(*job, limit.why);
    case JobLimit::Answer::never:
      return forgo_credit(*job, limit.why);
  }
}

void Jobs::ask_max_time(const JobKey& key, const JobLimit& limit) {
  const auto take = [this, key, limit](const Scontrol::Output& output) {
    if (Job* job = find_owed(key); job != nullptr) {
      const auto most = read_max_time(limit.partition, output.text);
      const std::uint32_t credit = job->record.credit_minutes;
      const auto raised = raised_limit(limit.minutes, credit, most.value_or(0));
      if (!most) {
        credit_later(*job, "Slurm gave no clear answer about its partition");
      } else if (!raised) {
        forgo_credit(*job, "it is at the MaxTime of partition " + printable(limit.partition));
      } else {
        raise_limit(*job, limit, *raised);
      }
    }
    credit_next();
  };
  const Status asked = scontrol_.run({"--oneliner", "show", "partition", limit.partition}, take);
  if (!asked) credit_later(*find(key), asked.error().what);
}

void Jobs::raise_limit(Job& job, const JobLimit& limit, std::uint32_t raised) {
  job.record.credited = true;
  if (const Status saved = at_.journal.save(job.record); !saved) {
    log::error(about(job.record),
               "nothing is added to its time limit: the journal cannot be written: {}",
               saved.error().what);
    return;
  }
  const auto take = [this, subject = about(job.record), from = limit.minutes,
                     raised](const Scontrol::Output& output) {
    if (output.succeeded) {
      log::info(subject, "{} min of staging were added to its time limit: {} min, was {} min",
                raised - from, raised, from);
    } else {
      log::warn(subject, "Slurm did not confirm that its time limit was raised to {} min: {}",
                raised, output.text);
    }
    credit_next();
  };
  const Status sent =
      scontrol_.run({"update", "JobId=" + limit.id, "TimeLimit=" + std::to_string(raised)}, take);
  if (!sent) log::error(about(job.record), "its time limit was not raised: {}", sent.error().what);
}

void Jobs::credit_later(Job& job, const std::string& why) {
  const auto pause = k_first_pause * (1U << std::min(job.credit_tries++, k_most_doublings));
  log::info(about(job.record), "its time limit is looked at again in {} s: {}", pause.count(), why);
  queue_credit(job.record.key(), pause);
}

void Jobs::forgo_credit(Job& job, const std::string& why) {
  job.record.credit_minutes = 0;
  log::info(about(job.record), "nothing is added to its time limit: {}", why);
  save(job);
}

}  // namespace nodestage

// Waiting: the callers that wait for a job: its steps until it may run (`wait`), and its processes
// until datasets are there (`await`, nodestage wait). Each gets reports of the progress, and one
// last answer.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/wire/protocol.hpp"
#include "common/wire/status_file.hpp"
#include "daemon/root/basis/loop.hpp"
#include "daemon/root/jobs/credits.hpp"
#include "daemon/root/jobs/peer_talk.hpp"
#include "daemon/root/nodes/peers.hpp"
#include "daemon/root/staging/staging.hpp"
#include "daemon/root/table/job_files.hpp"
#include "daemon/root/table/job_table.hpp"
#include "daemon/root/tasks/job_workers.hpp"

namespace nodestage {

// What `nodestage wait` waits for: which datasets its names mean, and what has become of them, from
// what the worker reported. Every text is bounded and printable.
struct Awaited {
  WorkerStatus status;               // only with the items that are meant
  std::vector<std::string> unknown;  // names that mean no item
};

// A name is the <NAME> of NODESTAGE_DATASET_<NAME>, in any case, with or without the prefix; or
// NODESTAGE_DATASET itself, the first dataset; or a destination, below `directory` or absolute.
// Without names: all.
Awaited choose_awaited(const WorkerStatus& status, const std::vector<std::string>& names,
                       const std::string& directory);

bool all_ended(const WorkerStatus& status);

// For each failed item, "dataset 'NAME': " and why; empty when none has failed. `fault`: why items
// that have not ended never will; empty: they still can. Optional items count when they were named.
enum class Optional { counts, is_left_out };
std::string failures(const WorkerStatus& status, Optional optional, const std::string& fault);

// "A, B", for a message.
std::string dataset_names(const WorkerStatus& status);

class Waiting {
 public:
  struct Deps : JobDeps {
    const Peers& peers;
    Staging& staging;
    PeerTalk& talk;
    Credits& credits;
    TimeLimits& limits;
  };
  explicit Waiting(const Deps& deps) : deps_(deps) {}
  Waiting(const Waiting&) = delete;

  // Take in a caller. They return its ticket, or 0 when the answer was given already.
  Ticket wait(const JobKey& key, const Wait& wait, Ticket ticket, Reply reply);
  Ticket await(const JobKey& key, const Await& ask, Ticket ticket, Reply reply);
  // Answers those whose answer is known by now, some at a time: there can be thousands.
  void answer(const JobKey& key);
  // Removes a caller that went away. Returns whether it was one of these.
  bool leave(Ticket ticket);
  // Answers those who still wait for a job that is gone.
  void forget(const JobKey& key);

  // Whether a step waits for all nodes of the job.
  [[nodiscard]] bool is_for_all(const JobKey& key) const;

 private:
  struct Waiter {
    Reply reply;
    std::uint32_t interval_ms = 0;
    std::uint8_t speaks = 0;  // Wait::speaks
    WaitScope scope = WaitScope::node;
    std::optional<std::vector<std::string>> names;  // of an await; empty: all datasets
    Loop::TimerId timer{};
  };
  enum class Word { not_yet, ready, failed };

  Ticket add(const JobKey& key, Ticket ticket, Waiter waiter);
  Waiter* find(const JobKey& key, Ticket ticket);
  void remove(const JobKey& key, Ticket ticket);
  void tick(const JobKey& key, Ticket ticket);
  void answer_later(const JobKey& key);
  [[nodiscard]] std::string failure_text(const JobRecord& record, const Waiter& waiter) const;
  [[nodiscard]] Word word_for(const JobRecord& record, WaitScope scope) const;
  void answer(JobRecord& record, const Waiter& waiter, Word word);
  [[nodiscard]] Ready ready_message(const JobRecord& record, const Waiter& waiter);
  [[nodiscard]] std::string note_on_others(const JobRecord& record, WaitScope scope) const;
  [[nodiscard]] Progress progress(const JobRecord& record, const Waiter& waiter) const;
  void add_lack(const JobRecord& record, Progress& progress) const;
  [[nodiscard]] std::string others_text(const JobRecord& record, WaitScope scope,
                                        Progress& progress) const;
  [[nodiscard]] WorkerStatus status_of(const JobRecord& record) const {
    return deps_.workers.status(record.key(), WorkerTask::stage);
  }

  // waiting.cpp
  [[nodiscard]] std::optional<Message> word_on(const JobRecord& record,
                                               const std::vector<std::string>& names) const;
  [[nodiscard]] Progress progress_on(const JobRecord& record,
                                     const std::vector<std::string>& names) const;

  Deps deps_;
  std::map<JobKey, std::map<Ticket, Waiter>> waiters_;
  std::set<JobKey> to_answer_;  // of whose waiters the next are answered soon
};

}  // namespace nodestage

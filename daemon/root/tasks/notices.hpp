// Notices: messages to users in a file beside their job's output, and lines in that output, written
// by workers with the user's rights, one at a time for each user, since a target may hang.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "common/settings/config.hpp"
#include "daemon/root/basis/log.hpp"
#include "daemon/root/workers/workers.hpp"

namespace nodestage {

class Notices {
 public:
  enum class Written { yes, no };
  using OnWritten = std::function<void(Written)>;

  Notices(Workers& workers, const Config& config) : workers_(workers), config_(config) {}

  // Has a worker write. `start` is a `notice` or `append` order with the text as its request. A
  // later notice of the same run replaces one that still waits. `on_written` is called once: when
  // it is replaced or its worker could not be started (from within write()), or when that has
  // exited. A fault is logged; no try follows.
  void write(WorkerStart start, Subject subject, OnWritten on_written);

 private:
  struct Notice {
    WorkerStart start;
    Subject subject;
    OnWritten on_written;
  };
  void start_next(std::uint32_t uid);
  Result<Workers::Id> start(const Notice& notice);

  Workers& workers_;
  const Config& config_;
  std::map<std::uint32_t, std::deque<Notice>> waiting_;  // by uid
  std::set<std::uint32_t> at_work_;
  std::uint64_t next_ = 1;
};

}  // namespace nodestage

// WriterCrew: the threads of a TreeWriter, and the tasks that wait for them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "daemon/worker/write/entry_maker.hpp"

namespace nodestage {

struct WriterFault {
  Error error;
  std::string entry;         // its name
  std::uint64_t number = 0;  // in the archive's order
};

// What a thread does in one go, up to the first fault.
class WriterTask {
 public:
  WriterTask() = default;
  WriterTask(const WriterTask&) = delete;
  WriterTask& operator=(const WriterTask&) = delete;
  virtual ~WriterTask() = default;
  virtual std::optional<WriterFault> run(EntryMaker& maker) = 0;

  std::size_t bytes = 0;    // of data that it keeps
  std::uint64_t near = 0;   // tasks with the same value go to one thread while all have work
  bool only_near = false;   // or wait for it: a file's writer keeps its lock from others
  unsigned generation = 0;  // of directories: a thread forgets those of earlier ones
};

// Threads are started when there is work for them. One thread calls everything except quit().
class WriterCrew {
 public:
  struct Way {  // borrowed
    int root_fd;
    Meter& meter;
    const Space& space;
    EntryRules& rules;
  };
  struct Limits {
    unsigned threads;
    std::size_t queued_bytes;
  };
  WriterCrew(const Way& way, const Limits& limits);
  WriterCrew(const WriterCrew&) = delete;
  WriterCrew& operator=(const WriterCrew&) = delete;
  ~WriterCrew();  // drops what waits, and joins the threads

  // Hands on a task, which waits while too many wait. Does nothing after a fault.
  void submit(std::unique_ptr<WriterTask> task);
  void drain();

  [[nodiscard]] bool has_failed() const { return quit_; }
  // Returns, after a failure, the fault that comes first in the archive, as far as known.
  [[nodiscard]] WriterFault fault() const;
  void fail(WriterFault fault);

  // Set once something has failed.
  [[nodiscard]] const std::atomic<bool>& quit() const { return quit_; }

 private:
  struct Writer {
    std::deque<std::unique_ptr<WriterTask>> tasks;
    std::thread thread;
  };
  void work(Writer& own);
  std::unique_ptr<WriterTask> next_task(Writer& own);
  std::unique_ptr<WriterTask> task_of_another();
  Writer& home_of(const WriterTask& task);
  void start_thread(Writer& home);
  [[nodiscard]] bool has_room() const;
  [[nodiscard]] bool has_much_room() const;

  const Way way_;
  const Limits limits_;
  std::atomic<bool> quit_ = false;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable has_work_;
  std::condition_variable is_done_;
  std::vector<std::unique_ptr<Writer>> writers_;
  std::optional<WriterFault> fault_;
  std::size_t queued_ = 0;        // tasks
  std::size_t queued_bytes_ = 0;  // of them and of those being worked on
  std::size_t busy_ = 0;          // threads
  std::size_t idle_ = 0;
  std::uint64_t last_near_ = 0;
  Writer* last_home_ = nullptr;
  bool is_over_ = false;
};

}  // namespace nodestage

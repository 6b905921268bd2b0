// WriterCrew: the threads of a TreeWriter, and the tasks that wait for them.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
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
struct WriterTask {
  std::function<std::optional<WriterFault>(EntryMaker& maker)> run;
  std::size_t bytes = 0;    // of data that it keeps
  std::uint64_t near = 0;   // tasks with the same value go to one thread while all have work
  bool only_near = false;   // or wait for it: a file's writer keeps its lock from others
  unsigned generation = 0;  // of directories: a thread forgets those of earlier ones
};

// Threads are started when there is work for them. One thread calls everything except quit().
class WriterCrew {
 public:
  struct Options {  // borrowed
    int root_fd;
    Meter& meter;
    const Space& space;
    EntryRules& rules;
  };
  struct Limits {
    unsigned threads;
    std::size_t queued_bytes;
  };
  WriterCrew(const Options& options, const Limits& limits);
  ~WriterCrew();  // drops what waits, and joins the threads

  // Hands on a task, which waits while too many wait. Does nothing after a fault.
  void submit(WriterTask task);
  void drain();

  [[nodiscard]] bool has_failed() const { return quit_; }
  // Returns, after a failure, the fault that comes first in the archive, as far as known.
  [[nodiscard]] WriterFault fault() const;
  void fail(WriterFault fault);

  // Set once something has failed.
  [[nodiscard]] const std::atomic<bool>& quit() const { return quit_; }

 private:
  struct Writer {
    std::deque<WriterTask> tasks;
    std::thread thread;
  };
  void work(Writer& own);
  std::optional<WriterTask> next_task(Writer& own);
  std::optional<WriterTask> task_of_another();
  Writer& home_of(const WriterTask& task);
  void start_thread(Writer& home);
  [[nodiscard]] bool has_room() const;
  [[nodiscard]] bool has_much_room() const;

  const Options options_;
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

// New entries of one directory, which one task makes.
class EntryBatch {
 public:
  EntryBatch(std::string parent, Meter& meter, Space& space)
      : parent_(std::move(parent)), meter_(meter), space_(space) {}

  // Adds an entry whose data are in `memory`, of which the batch takes a share.
  void put(NewEntry entry, const Slice& memory, const Amount& amount);
  // Returns whether it should be handed on before more is added.
  [[nodiscard]] bool is_full() const;
  [[nodiscard]] const std::string& parent() const { return parent_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }  // of data that it keeps
  // The number of different blocks of a decoder that it may hold.
  static constexpr std::size_t k_memories = 14;

  std::optional<WriterFault> run(EntryMaker& maker) const;

 private:
  const std::string parent_;
  Meter& meter_;
  Space& space_;  // only for wrote()
  Amount amount_;
  std::size_t bytes_ = 0;
  std::uint64_t to_fetch_ = 0;  // bytes of the entries' data that it does not contain
  std::vector<NewEntry> entries_;
  std::vector<Slice> memories_;
};

// Makes hard links, in any directories.
struct WaitingLink {
  std::string parent;
  NewEntry entry;
};
std::optional<WriterFault> make_links(const std::vector<WaitingLink>& links, EntryMaker& maker,
                                      Meter& meter, Space& space);

// A file that several writers fill, of which the last to release it completes it. For any thread.
class LargeFile {
 public:
  LargeFile(Fd file, std::string path, NewEntry entry)
      : file_(std::move(file)), path_(std::move(path)), entry_(std::move(entry)) {}

  // Adds a holder; its maker is the first.
  void hold() { ++holders_; }
  // Writes a part, for which `amount` was taken, and releases it.
  std::optional<WriterFault> write(std::uint64_t offset, Bytes data, const Amount& amount,
                                   Meter& meter, Space& space, const EntryMaker& maker);
  // Releases it, after everything that was held was written, up to `end`.
  std::optional<WriterFault> release(const EntryMaker& maker);

  void reach(std::uint64_t end) { end_ = std::max(end_, end); }  // the maker only

 private:
  Fd file_;
  const std::string path_;
  const NewEntry entry_;
  std::uint64_t end_ = 0;  // final before the maker lets go
  std::atomic<unsigned> holders_ = 1;
};

// Finishes directories of one depth, when nothing more is added to them.
struct FilledDirectory {
  const std::string* path;
  const DirectoryAttributes* attributes;
};
std::optional<WriterFault> finish_all(const std::vector<FilledDirectory>& directories,
                                      EntryMaker& maker);

}  // namespace nodestage

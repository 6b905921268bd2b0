#include "daemon/worker/write/writer_crew.hpp"

#include <system_error>
#include <utility>

#include "daemon/worker/basis/task_crew.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_tasks_per_thread = 64;
constexpr std::size_t k_bytes_per_thread = std::size_t{6} << 20U;

constexpr std::size_t k_batch_entries = 64;
constexpr std::size_t k_batch_bytes = std::size_t{1} << 20U;

Result<bool> make(EntryMaker& maker, const Meter& meter, const std::string& parent,
                  const NewEntry& entry) {
  TRY(meter.check());
  return maker.make(parent, entry);
}

}  // namespace

WriterCrew::WriterCrew(const Options& options, const Limits& limits)
    : options_(options),
      limits_{limits.threads,
              std::min(limits.queued_bytes, k_bytes_per_thread * std::max(limits.threads, 1U))} {
  writers_.resize(std::max(limits.threads, 1U));
  for (auto& writer : writers_) writer = std::make_unique<Writer>();
}

WriterCrew::~WriterCrew() {
  {
    const std::lock_guard lock(mutex_);
    quit_ = true;
    is_over_ = true;
    has_work_.notify_all();
  }
  for (const auto& writer : writers_) {
    if (writer->thread.joinable()) writer->thread.join();
  }
}

bool WriterCrew::has_room() const {
  return quit_ || queued_ == 0 ||
         (queued_bytes_ < limits_.queued_bytes && queued_ < k_tasks_per_thread * writers_.size());
}

// A waiting caller is woken when half of the room is free, instead of for each task.
bool WriterCrew::has_much_room() const {
  return quit_ || queued_ == 0 ||
         (queued_bytes_ < limits_.queued_bytes / 2 &&
          queued_ < k_tasks_per_thread * writers_.size() / 2);
}

void WriterCrew::submit(WriterTask task) {
  std::unique_lock lock(mutex_);
  is_done_.wait(lock, [this] { return has_room(); });
  if (quit_) return;
  Writer& home = home_of(task);
  const bool only_near = task.only_near;
  ++queued_;
  queued_bytes_ += task.bytes;
  home.tasks.push_back(std::move(task));
  if (idle_ == 0 || (only_near && !home.thread.joinable())) start_thread(home);
  if (only_near) {
    has_work_.notify_all();
  } else {
    has_work_.notify_one();
  }
}

// Starts the writer's own thread or, if that runs, another writer's, which will help. If no more
// threads are possible, the first one does all of the work.
void WriterCrew::start_thread(Writer& home) {
  const auto is_idle = [](const auto& writer) { return !writer->thread.joinable(); };
  const auto other = std::find_if(writers_.begin(), writers_.end(), is_idle);
  if (other == writers_.end()) return;
  Writer& writer = home.thread.joinable() ? **other : home;
  try {
    writer.thread = std::thread([this, &writer] { work(writer); });
  } catch (const std::system_error&) {
    if (std::all_of(writers_.begin(), writers_.end(), is_idle)) throw;
  }
}

// The writer of the last task that is near this one, otherwise the one with the least work.
WriterCrew::Writer& WriterCrew::home_of(const WriterTask& task) {
  if (last_home_ == nullptr || task.near != last_near_) {
    last_near_ = task.near;
    last_home_ =
        std::min_element(writers_.begin(), writers_.end(), [](const auto& a, const auto& b) {
          return a->tasks.size() < b->tasks.size();
        })->get();
  }
  return *last_home_;
}

// Its own first task, or another writer's; empty: there is none for it.
std::optional<WriterTask> WriterCrew::next_task(Writer& own) {
  std::optional<WriterTask> task;
  if (!own.tasks.empty()) {
    task = std::move(own.tasks.front());
    own.tasks.pop_front();
  } else {
    task = task_of_another();
  }
  if (task) --queued_;
  return task;
}

// Returns the last task of the writer that has the most, so that each directory has one writer as
// long as there are enough directories.
std::optional<WriterTask> WriterCrew::task_of_another() {
  Writer* most = nullptr;
  for (const auto& writer : writers_) {
    if (writer->tasks.empty()) continue;
    if (writer->tasks.back().only_near && writer->thread.joinable()) continue;
    if (most == nullptr || writer->tasks.size() > most->tasks.size()) most = writer.get();
  }
  if (most == nullptr) return std::nullopt;
  std::optional<WriterTask> task = std::move(most->tasks.back());
  most->tasks.pop_back();
  return task;
}

void WriterCrew::work(Writer& own) {
  Space space = options_.space.another();
  EntryMaker maker({options_.root_fd, options_.meter, space, quit_, options_.rules});
  unsigned generation = 0;
  std::unique_lock lock(mutex_);
  for (;;) {
    std::optional<WriterTask> task;
    ++idle_;
    has_work_.wait(lock, [&] { return is_over_ || (task = next_task(own)); });
    --idle_;
    if (is_over_) return;
    ++busy_;
    lock.unlock();
    if (std::exchange(generation, task->generation) != task->generation) {
      maker.forget_directories();
    }
    const std::size_t bytes = task->bytes;
    std::optional<WriterFault> failed;
    const Status ran = guarded([&] {
      if (!quit_) failed = task->run(maker);
    });
    if (!ran) failed = WriterFault{ran.error(), "", 0};
    if (failed) fail(std::move(*failed));
    task.reset();  // releases its memory before room is reported
    lock.lock();
    --busy_;
    queued_bytes_ -= bytes;
    if (has_much_room()) is_done_.notify_one();
  }
}

void WriterCrew::drain() {
  std::unique_lock lock(mutex_);
  is_done_.wait(lock, [this] { return queued_ == 0 && busy_ == 0; });
}

WriterFault WriterCrew::fault() const {
  const std::lock_guard lock(mutex_);
  return fault_.value_or(WriterFault{});
}

void WriterCrew::fail(WriterFault fault) {
  const std::lock_guard lock(mutex_);
  const bool is_first = !fault_ || (fault.number < fault_->number && !is_stopped(fault.error));
  if (is_first || is_stopped(fault_->error)) fault_ = std::move(fault);
  quit_ = true;
  is_done_.notify_one();
}

void EntryBatch::put(NewEntry entry, const Slice& memory, const Amount& amount) {
  if (!memory.empty() && (memories_.empty() || !memories_.back().shares_memory_with(memory))) {
    memories_.push_back(memory);
  }
  if (entries_.empty()) entries_.reserve(k_batch_entries);
  bytes_ +=
      (entry.from != nullptr ? 0 : memory.size()) + entry.link.size() + bytes_of(entry.xattrs);
  to_fetch_ += entry.from != nullptr ? entry.size : 0;
  amount_ = amount_ + amount;
  entries_.push_back(std::move(entry));
}

bool EntryBatch::is_full() const {
  return entries_.size() >= k_batch_entries || bytes_ + to_fetch_ >= k_batch_bytes ||
         memories_.size() >= k_memories;
}

std::optional<WriterFault> EntryBatch::run(EntryMaker& maker) const {
  std::uint64_t written = 0;
  std::uint64_t files = 0;
  for (const NewEntry& entry : entries_) {
    const auto made = make(maker, meter_, parent_, entry);
    if (!made) return WriterFault{made.error(), path_in(parent_, entry.name), entry.number};
    if (!*made) continue;
    ++files;
    written += entry.data.data.size();
    for (const auto& part : entry.more) written += part.data.size();
  }
  meter_.bytes_written += written;
  meter_.files += files;
  space_.wrote(amount_);
  return std::nullopt;
}

std::optional<WriterFault> make_links(const std::vector<WaitingLink>& links, EntryMaker& maker,
                                      Meter& meter, Space& space) {
  std::uint64_t files = 0;
  for (const auto& [parent, entry] : links) {
    const auto made = make(maker, meter, parent, entry);
    if (!made) return WriterFault{made.error(), path_in(parent, entry.name), entry.number};
    if (*made) ++files;
  }
  meter.files += files;
  space.wrote({0, links.size()});
  return std::nullopt;
}

std::optional<WriterFault> LargeFile::release(const EntryMaker& maker) {
  if (--holders_ > 0) return std::nullopt;
  Status completed = maker.complete(std::move(file_), path_, entry_, end_);
  if (!completed) return WriterFault{std::move(completed.error()), path_, entry_.number};
  return std::nullopt;
}

std::optional<WriterFault> LargeFile::write(std::uint64_t offset, Bytes data, const Amount& amount,
                                            Meter& meter, Space& space, const EntryMaker& maker) {
  Status written = meter.check();
  if (written) {
    written = write_at(file_.get(), offset, data);
    if (!written) written = space.explain(path_, written.error().code);
  }
  if (!written) return WriterFault{std::move(written.error()), path_, entry_.number};
  meter.bytes_written += data.size();
  space.wrote(amount);
  return release(maker);
}

std::optional<WriterFault> finish_all(const std::vector<FilledDirectory>& directories,
                                      EntryMaker& maker) {
  for (const auto& [path, attributes] : directories) {
    Status set = maker.set_attributes(*path, *attributes);
    if (!set) return WriterFault{std::move(set.error()), *path, 0};
  }
  return std::nullopt;
}

}  // namespace nodestage

#include "daemon/worker/stage/stage.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <iterator>
#include <optional>
#include <thread>
#include <utility>

#include "common/os/mounts.hpp"
#include "common/text/human.hpp"
#include "common/text/path_names.hpp"
#include "daemon/worker/basis/fault.hpp"
#include "daemon/worker/basis/task_crew.hpp"
#include "daemon/worker/share/identify.hpp"
#include "daemon/worker/stage/stage_report.hpp"
#include "daemon/worker/stage/staged_item.hpp"
#include "daemon/worker/tree/file_data.hpp"

namespace nodestage {
namespace {

constexpr auto k_report_interval = std::chrono::milliseconds(100);

constexpr std::size_t k_at_once = 4;
constexpr std::size_t k_memory = std::size_t{192} * 1024 * 1024;

// Each item has threads of its own, so only a few items run side by side.
std::size_t items_at_once(const StageOrder& order, const StageRequest& request) {
  return std::clamp<std::size_t>(
      std::min<std::size_t>(order.threads, request.datasets.size() + (request.venv ? 1 : 0)), 1,
      k_at_once);
}

PieceLimits limits_of_each(const StageOrder& order, std::size_t at_once) {
  return {std::max(1U, order.threads / static_cast<unsigned>(at_once)), k_memory / at_once,
          order.extract};
}

// Nothing is built of an environment that is only linked.
bool needs_builder(const StageOrder& order, const StageRequest& request) {
  if (!request.venv || !order.refuse_venv.empty()) return false;
  const SharedItem* decided = decided_for(order, request.datasets.size());
  return !request.venv->shared || decided == nullptr || decided->role != ShareRole::link;
}

// Whether only the source's directory shows which names a dataset has in the job directory.
bool has_names_of_matches(const StageRequest& request) {
  return std::any_of(request.datasets.begin(), request.datasets.end(), [](const auto& item) {
    return item.destination.empty() && is_glob(item.source);
  });
}

bool uses_memory(const StageRequest& request) {
  return std::any_of(request.datasets.begin(), request.datasets.end(),
                     [](const auto& item) { return item.storage == Storage::memory; });
}

// The worker is in the memory cgroup of those whose memory it is, or it is bounded by what Slurm
// says that they may take.
MemoryShare share_of_memory(const MemoryRules& rules) {
  std::uint64_t of = memory_limit();
  if (rules.most_bytes != 0) of = std::min(of, rules.most_bytes);
  return {of / 100 * rules.share_percent, rules.share_percent, of};
}

// The groups were resolved when this process was started.
bool is_in_one_of(const std::vector<std::uint64_t>& groups) {
  const int count = ::getgroups(0, nullptr);
  std::vector<gid_t> mine(count < 0 ? 0 : static_cast<std::size_t>(count));
  if (::getgroups(count, mine.data()) != count) mine.clear();
  mine.push_back(::getegid());
  return std::any_of(mine.begin(), mine.end(), [&groups](gid_t gid) {
    return std::find(groups.begin(), groups.end(), gid) != groups.end();
  });
}

class Stage {
 public:
  // `builder`: for request.venv, if there is one. `relays`: null if nothing is relayed. `memory`:
  // null if no item has in=memory.
  Stage(const StageOrder& order, const StageRequest& request, Workspace& workspace,
        Workspace* memory, Builder* builder, RelayedSources* relays)
      : order_(order),
        rate_(k_worker_rate_fd),
        allowance_({k_worker_status_fd, k_worker_answer_fd, k_worker_directory_fd,
                    order.leave_free_bytes, order.node},
                   stop_),
        spool_(relays, allowance_, stop_),
        at_once_(items_at_once(order, request)),
        memory_allowance_({k_worker_status_fd, -1, k_worker_memory_fd, 0, order.node,
                           share_of_memory(order.memory)},
                          stop_),
        context_(context_of(request, allowance_, relays,
                            {workspace, order.directory, k_worker_directory_fd, nullptr})),
        memory_context_(context_of(request, memory_allowance_, relays,
                                   {memory == nullptr ? workspace : *memory, order.memory.directory,
                                    k_worker_memory_fd, &workspace})),
        workspace_(workspace),
        memory_(memory),
        keeps_names_(has_names_of_matches(request)),
        has_datasets_(!request.datasets.empty()) {
    std::size_t images = 0;
    for (const auto& item : request.datasets)
      items_.push_back(make_dataset(item, items_.size(),
                                    item.storage == Storage::memory ? memory_context_ : context_,
                                    item.mount ? images++ : k_no_image));
    report_.set_outputs(request.outputs);
    if (request.venv)
      items_.push_back(make_staged_venv(*request.venv, items_.size(), context_, builder));
  }

  int run() {
    report_.write(WorkerPhase::starting, items_);
    if (context_.relays == nullptr) delay(WorkerPhase::starting);
    plan();
    report_.set_chosen(items_);
    report_.write(WorkerPhase::working, items_);
    if (context_.relays != nullptr) {
      context_.relays->end_if_unwanted();
      delay(WorkerPhase::working);
    }
    // What the job waits for is weighed and admitted as a whole; an `async` dataset when it starts.
    const bool done = in_threads(Round::weigh) && admit() && in_threads(Round::run);
    spool_.end();
    workspace_.remove(done && keeps_names_);
    if (memory_ != nullptr) memory_->remove(false);
    if (!done) return 1;
    report_.set_environment(environment());
    report_.write(WorkerPhase::done, items_);
    return 0;
  }

 private:
  enum class Round { weigh, run };

  // Where items are staged: see StageContext.
  struct Where {
    Workspace& workspace;
    const std::string& directory;
    int dir_fd;
    Workspace* links;
  };
  StageContext context_of(const StageRequest& request, Allowance& allowance, RelayedSources* relays,
                          const Where& where) {
    return {order_,          where.workspace, request.umask,
            rate_,           stop_,           allowance,
            relays,          at_once_,        limits_of_each(order_, at_once_),
            where.directory, where.dir_fd,    where.links};
  }

  // Delays the start, so that not all nodes start to read at the same moment.
  void delay(WorkerPhase phase) {
    const auto reads_little = [](const auto& item) {
      return item->sharing().is_link() || item->is_relayed();
    };
    if (order_.start_delay_ms == 0 || std::all_of(items_.begin(), items_.end(), reads_little))
      return;
    for (auto& item : items_) {
      item->progress().set_note("starts after " + human_duration(order_.start_delay_ms) +
                                ", so that not all nodes read at once");
    }
    report_.write(phase, items_);
    std::this_thread::sleep_for(std::chrono::milliseconds(order_.start_delay_ms));
  }

  void plan() {
    for (auto& item : items_) {
      const Status planned = guarded([&] { return item->plan(); });
      if (planned) {
        item->progress().set_note("");
        (item->is_async() ? async_ : awaited_).push_back(item.get());
      } else {
        end(*item, planned);
      }
      if (stop_) return;
    }
  }

  // False if the job has failed, which was reported then.
  bool in_threads(Round round) {
    queue_.assign(awaited_.begin(), awaited_.end());
    if (round == Round::run) queue_.insert(queue_.end(), async_.begin(), async_.end());
    left_ = queue_.size();
    const std::size_t count = std::clamp<std::size_t>(at_once_, 1, std::max<std::size_t>(left_, 1));
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < count && !stop_; ++i) {
      threads.emplace_back([this, round] { work(round); });
    }
    follow(round);
    for (auto& thread : threads) thread.join();
    return !stop_;
  }

  // What goes to memory, and the rest, for which the spool may have to make room.
  Status admit_all() {
    std::vector<StagedItem*> in_memory;
    std::copy_if(awaited_.begin(), awaited_.end(), std::back_inserter(in_memory),
                 [](const StagedItem* item) { return item->is_in_memory(); });
    std::erase_if(awaited_, [](const StagedItem* item) { return item->is_in_memory(); });
    if (auto admitted = admit_items(in_memory, {}, memory_allowance_); !admitted)
      return std::move(admitted.error());
    TRY(spool_.admit(awaited_, at_once_));
    awaited_.insert(awaited_.end(), in_memory.begin(), in_memory.end());
    return {};
  }

  bool admit() {
    if (const Status admitted = admit_all(); !admitted) {
      fail(admitted.error(), nullptr);
      report_.fail(cause_, items_);
    }
    return !stop_;
  }

  void work(Round round) {
    while (StagedItem* item = take()) {
      const Status done =
          guarded([&] { return round == Round::weigh ? item->weigh() : item->run(); });
      const bool ended = !done || round == Round::run;
      if (ended) end(*item, done);
      const std::lock_guard lock(mutex_);
      --left_;
      if (ended) std::erase(awaited_, item);
      changed_.notify_one();
    }
  }

  StagedItem* take() {
    const std::lock_guard lock(mutex_);
    if (queue_.empty() || stop_) return nullptr;
    StagedItem* item = queue_.front();
    queue_.pop_front();
    return item;
  }

  void end(StagedItem& item, const Status& status) {
    item.end(status);  // first: the report of the failure shows its state
    if (!status && item.is_needed() && !is_stopped(status.error())) {
      fail(with_prefix(status.error(), item.name() + ": "), &item);
    }
  }

  // `item`: the one that has failed; null when it is none alone.
  void fail(const Error& error, const StagedItem* item) {
    const std::lock_guard lock(mutex_);
    if (stop_) return;
    stop_ = true;
    cause_ = error.text();
    if (item != nullptr) report_.blame(item->index());
    changed_.notify_one();
  }

  // The one reporter: the main thread, until nothing is left or a needed dataset has failed.
  void follow(Round round) {
    bool is_ready = false;
    std::unique_lock lock(mutex_);
    while (!stop_ && left_ > 0) {
      if (!is_ready && round == Round::run && awaited_.empty()) {
        is_ready = true;
        report_.set_environment(environment());
      }
      report_.write(is_ready ? WorkerPhase::ready : WorkerPhase::working, items_);
      spool_.count();
      changed_.wait_for(lock, k_report_interval);
    }
    if (stop_) report_.fail(cause_, items_);
  }

  // NODESTAGE_DATASET is the first option's, if that one succeeded. NODESTAGE_CACHE is for all
  // items that are in the cache or may get there.
  [[nodiscard]] std::vector<std::string> environment() const {
    std::vector<std::string> variables;
    for (const auto& item : items_) {
      const auto variable = item->variable();
      if (!variable) continue;
      if (has_datasets_ && item->index() == 0)
        variables.push_back("NODESTAGE_DATASET=" + variable->value);
      variables.push_back(variable->name + "=" + variable->value);
    }
    const auto is_cached = [](const auto& item) {
      return item->sharing().role() != ShareRole::own;
    };
    if (std::any_of(items_.begin(), items_.end(), is_cached))
      variables.push_back("NODESTAGE_CACHE=" + order_.cache);
    return variables;
  }

  const StageOrder& order_;
  RateLimit rate_;
  std::atomic<bool> stop_ = false;
  Allowance allowance_;
  SpoolSpace spool_;
  const std::size_t at_once_;
  Allowance memory_allowance_;
  StageContext context_;
  StageContext memory_context_;
  Workspace& workspace_;
  Workspace* const memory_;
  const bool keeps_names_;
  const bool has_datasets_;
  StagedItems items_;
  StageReport report_;
  std::vector<StagedItem*> async_;

  std::mutex mutex_;  // guards what follows, while there are threads
  std::condition_variable changed_;
  std::deque<StagedItem*> queue_;     // of the round
  std::size_t left_ = 0;              // of the round's items
  std::vector<StagedItem*> awaited_;  // items that the job waits for and that have not ended
  std::string cause_;
};

Error no_memory_here(const StageOrder& order) {
  return {0,
          "data cannot be staged in memory on node " + order.node +
              (order.memory.refusal.empty() ? "" : ": " + order.memory.refusal),
          "Leave out in=memory: the data go to the node's local disk then. Or ask your "
          "administrators for it (memory.path in nodestaged.toml)."};
}

// The daemon counts the images in the request's text, which can be written in other ways. Where
// nothing is mounted, each item says so.
Status check_mounts(const StageOrder& order, const StageRequest& request) {
  const auto count =
      static_cast<std::size_t>(std::count_if(request.datasets.begin(), request.datasets.end(),
                                             [](const DatasetItem& item) { return item.mount; }));
  const std::size_t mounts = order.images.mounts.size();
  if (order.for_readers || count == mounts || mounts == 0) return {};
  return Error{EINVAL,
               "node " + order.node + " has " + counted(mounts, "mount", "mounts") + " for " +
                   counted(count, "image", "images"),
               "If the job was submitted by sbatch, salloc, or srun, tell your site's support"};
}

}  // namespace

int run_stage(const StageOrder& order, const StageRequest& request, Builder* builder) {
  StageReport report;
  std::optional<RelayedSources> relays;
  if (order.has_board) relays.emplace(order.relay, k_worker_board_fd, k_worker_spool_fd);
  if (!order.refuse_outputs.empty() && !request.outputs.empty())
    return report.fail(order.refuse_outputs, {});
  if (const Status mounts = check_mounts(order, request); !mounts)
    return report.fail(mounts.error().text(), {});
  ::umask(request.umask);
  struct stat before {};
  if (::fstat(k_worker_directory_fd, &before) != 0)
    return report.fail(system_error("the job directory").text(), {});
  const auto existing = order.is_again ? Workspace::Existing::goes : Workspace::Existing::stays;
  auto workspace = Workspace::open(k_worker_directory_fd, existing);
  if (!workspace) return report.fail(workspace.error().text(), {});
  if (needs_builder(order, request) && builder == nullptr)
    return report.fail("the process that builds environments was not started", {});
  std::optional<Workspace> memory;
  if (uses_memory(request)) {
    if (order.memory.directory.empty()) return report.fail(no_memory_here(order).text(), {});
    auto opened = Workspace::open(k_worker_memory_fd, existing);
    if (!opened) return report.fail("in memory: " + opened.error().text(), {});
    memory.emplace(std::move(*opened));
  }
  const int code = Stage(order, request, *workspace, memory ? &*memory : nullptr, builder,
                         relays ? &*relays : nullptr)
                       .run();
  // Of a directory to which nothing was staged, a later time shows that the job has changed it.
  if (request.datasets.empty() && !request.venv)
    ::futimens(k_worker_directory_fd, times_of(before).data());
  return code;
}

Status check_user(const IdentifyOrder& order) {
  if (order.only_groups.empty() || is_in_one_of(order.only_groups)) return {};
  return Error{EPERM, order.refuse_user};
}

Result<std::optional<Builder>> start_builder(const StageOrder& order, const StageRequest& request) {
  std::optional<Builder> builder;
  if (!needs_builder(order, request)) return builder;
  TRY_ASSIGN(Builder started, Builder::start(k_worker_directory_fd, request.umask));
  builder.emplace(std::move(started));
  return builder;
}

int run_keep(KeepOrder order, const StageRequest& request, OpenedItems items) {
  StageRequest wanted;
  wanted.umask = k_umask_for_all;
  OpenedByText opened;
  for (SharedItem& shared : order.shared) {
    if (shared.item >= request.datasets.size() || !is_for_readers(request.datasets[shared.item]))
      return StageReport().fail("what it is to keep is not in the request", {});
    if (const auto found = items.find(shared.item); found != items.end())
      opened.emplace(opened_text(request.datasets[shared.item]), std::move(found->second));
    const auto index = static_cast<std::uint32_t>(wanted.datasets.size());
    DatasetItem& item = wanted.datasets.emplace_back(request.datasets[shared.item]);
    item.destination = std::to_string(index) + "/" + last_part(shared.path);
    item.name.clear();
    item.storage = Storage::disk;
    item.writable = false;
    shared.item = index;
  }
  read_opened_only(std::move(opened));
  return run_stage(order, wanted, nullptr);
}

}  // namespace nodestage

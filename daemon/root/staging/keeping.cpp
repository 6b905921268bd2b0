#include "daemon/root/staging/keeping.hpp"

#include <sys/socket.h>

#include <utility>

#include "daemon/root/basis/connection_closer.hpp"
#include "daemon/root/basis/log.hpp"

namespace nodestage {
namespace {

// What is small enough for one process with others is done by then.
constexpr std::chrono::seconds k_several_at_most{10};

struct Ends {
  Fd of_user;
  Fd of_keeper;
};

Result<Ends> make_ends() {
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return system_error("socketpair");
  refuse_descriptors(ends[0]);  // nothing comes back
  return Ends{Fd(ends[0]), Fd(ends[1])};
}

template <typename Change>
void change_rules(WorkerOrder& order, Change change) {
  std::visit(
      [&change]<typename Order>(Order& one) {
        if constexpr (std::derived_from<Order, IdentifyOrder>) change(one);
      },
      order);
}

}  // namespace

WorkerStart Keeping::order_of_keeper(const JobRecord& record, WorkerTask task) const {
  WorkerStart start = deps_.workers.order(record, task);
  OrderHead& head = head_of(start.order);
  head.uid = cache_.keeper()->uid;
  head.gid = cache_.keeper()->gid;
  head.user.clear();
  start.groups = Groups::primary;
  change_rules(start.order, [this](IdentifyOrder& order) {
    order.for_readers = true;
    order.cache = cache_.path();
    // They could let others read less, or more.
    order.extract.xattrs = false;
    order.extract.special = Special::skip;
  });
  return start;
}

Fd Keeping::look(JobRecord& record, WorkerStart& start, JobWorkers::OnEnd on_end) {
  if (!cache_.keeper()) return {};
  auto ends = make_ends();
  Status started = ends ? Status() : Status(ends.error());
  if (started) {
    WorkerStart look = order_of_keeper(record, WorkerTask::look);
    look.sources_fd = ends->of_keeper.get();
    started = deps_.workers.start(record, look, deps_.workers.bounds(record, WorkerTask::look),
                                  std::move(on_end));
  }
  if (!started) {
    log::warn(about(record), "nothing is shared with other users: {}", started.error().what);
    return {};
  }
  change_rules(start.order, [](IdentifyOrder& order) { order.hands_over = true; });
  start.sources_fd = ends->of_user.get();
  return std::move(ends->of_user);
}

Status Keeping::keep(JobRecord& record, const KeepItems& items, int directory_fd,
                     JobWorkers::OnEnd on_end) {
  if (!cache_.keeper()) return Error{EPERM, "cache.scope has changed"};
  const JobKey key = record.key();
  TRY_ASSIGN(Ends ends, make_ends());
  const CacheEntry& entry = items.front().entry;
  TRY_ASSIGN(Fd work, cache_.area().make_work(entry));
  TRY_ASSIGN(const Fd answer, allocator_.make_answer_file(key));
  WorkerStart keep = order_of_keeper(record, WorkerTask::keep);
  auto& order = std::get<KeepOrder>(keep.order);
  order.shared.clear();
  for (const KeepItem& item : items) {
    order.only_items.push_back(item.shared.item);
    order.shared.push_back(item.shared);
  }
  const std::vector<std::uint32_t> only = order.only_items;
  order.sandbox = SandboxNeed::required;
  order.on_failure = OnFailure::proceed;
  order.directory = cache_.area().work_path(entry);
  keep.directory_fd = work.get();
  keep.answer_fd = answer.get();
  keep.sources_fd = ends.of_keeper.get();
  TRY(deps_.workers.start(record, keep, deps_.workers.bounds(record, WorkerTask::keep),
                          std::move(on_end)));
  ends.of_keeper.reset();
  number_[key] = ++keeps_;
  kill_after(std::chrono::seconds(deps_.config.cache.identify_wait_s), key, Reason::empty_handed);
  if (items.size() > 1) kill_after(k_several_at_most, key, Reason::too_long);
  allocator_.open(key, about(record), std::move(work), WorkerTask::keep);
  WorkerStart open = deps_.workers.order(record, WorkerTask::identify);
  open.directory_fd = directory_fd;
  open.sources_fd = ends.of_user.get();
  change_rules(open.order, [&only, this](IdentifyOrder& rules) {
    rules.hands_over = true;
    rules.only_items = only;
    rules.cache = cache_.path();
  });
  const Status opened =
      deps_.workers.start(record, open, deps_.workers.bounds(record, WorkerTask::identify),
                          [](const JobKey&, const WorkerEnd&) {});
  // Then nobody hands anything over, and `keep` ends with that.
  if (!opened) log::warn(about(record), "cannot open a source: {}", opened.error().what);
  return {};
}

// It reports nothing before it has its sources.
void Keeping::kill_after(std::chrono::seconds wait, const JobKey& key, Reason reason) {
  deps_.loop.after(wait, [this, key, reason, number = keeps_] {
    const auto last = number_.find(key);
    if (last == number_.end() || last->second != number) return;
    const bool has_sources = deps_.files.status(key, WorkerTask::keep).phase != WorkerPhase::none;
    if (reason == Reason::too_long && !has_sources)
      return kill_after(k_several_at_most, key, reason);
    if (reason == Reason::empty_handed && has_sources) return;
    deps_.workers.kill(key, WorkerTask::keep);
  });
}

void Keeping::kill(const JobKey& key) {
  number_.erase(key);
  for (const WorkerTask task : {WorkerTask::identify, WorkerTask::look, WorkerTask::keep})
    deps_.workers.kill(key, task);
}

}  // namespace nodestage

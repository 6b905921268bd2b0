#include "daemon/worker/process/write_places.hpp"

#include <fcntl.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "common/os/file.hpp"
#include "common/wire/status_file.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/worker/deliver/delivered_list.hpp"
#include "daemon/worker/out/deliver_output.hpp"
#include "daemon/worker/out/job_output.hpp"
#include "daemon/worker/out/output_target.hpp"
#include "daemon/worker/out/stage_out.hpp"
#include "daemon/worker/sandbox/sandbox.hpp"
#include "daemon/worker/tree/job_tree.hpp"
#include "daemon/worker/tree/pending_file.hpp"
#include "daemon/worker/venv/builder.hpp"

namespace nodestage {
namespace {

int report(WorkerPhase phase, const std::string& cause) {
  static_cast<void>(write_status_phase(k_worker_status_fd, phase, 0, cause));
  return phase == WorkerPhase::done ? 0 : 1;
}

std::string both(const std::string& worker, const std::string& builder) {
  std::string text = worker;
  if (builder.empty() || builder == worker) return text;
  return text + (text.empty() ? "" : "; ") + "where environments are built: " + builder;
}

}  // namespace

int run_probe() {
  const auto builder = Builder::start(k_worker_directory_fd, 077);
  if (!builder) return report(WorkerPhase::failed, builder.error().text());
  std::vector<Fd> places;
  places.emplace_back(::fcntl(k_worker_directory_fd, F_DUPFD_CLOEXEC, 0));
  const Sandbox own = enter_sandbox(Profile::decode, Special::skip, places);
  const Sandbox& its = builder->sandbox();
  const std::string fault = both(own.fault, its.fault);
  return fault.empty() ? report(WorkerPhase::done, both(own.lacking, its.lacking))
                       : report(WorkerPhase::failed, fault);
}

namespace {

constexpr int k_directory = O_PATH | O_DIRECTORY;

// The paths to which a task writes, or below whose nearest existing directories it does.
struct PathsOfTask {
  const StageRequest& request;
  int job_fd;

  // What there is to place. While a job runs, what is missing can be there when its turn comes, as
  // a directory or a file.
  static std::vector<OutputSource> forms_of(const OutputSource& source, const OutputItem& item,
                                            bool is_running) {
    using SourceKind = OutputSource::Kind;
    if (source.kind != SourceKind::missing) return {source};
    if (!is_running) return {};
    return {{SourceKind::directory, {item.source}}, {SourceKind::file, {item.source}}};
  }

  // Paths of the targets, with a second one for a file's target if that name leads to a directory.
  template <typename IsDue>
  [[nodiscard]] std::vector<std::string> of_outputs(const DeliveryOrder& order, bool is_running,
                                                    IsDue is_due) const {
    std::vector<std::string> paths;
    const JobTree job(job_fd, order.directory);
    for (std::size_t i = 0; i < request.outputs.size(); ++i) {
      const OutputItem& item = request.outputs[i];
      if (!is_due(item, i) || is_excluded(item.when, order.outcome)) continue;
      const auto source = find_output_source(job, item.source);
      if (!source) continue;
      for (const OutputSource& form : forms_of(*source, item, is_running)) {
        const auto target = place_output(item, order, form);
        if (!target) continue;
        paths.push_back(target->directory);
        if (target->form == OutputTarget::Form::named) paths.push_back(target->path());
      }
    }
    // What a worker that was killed has left may lie elsewhere: its output need not be due.
    if (!order.keeps_list) return paths;
    const std::string left = left_temporary(k_worker_delivered_fd, pending_names(order).prefix);
    if (!left.empty()) paths.push_back(left.substr(0, left.rfind('/') + 1));
    return paths;
  }

  std::vector<std::string> operator()(const StageOutOrder& order) const {
    return of_outputs(order, false, [&order](const OutputItem&, std::size_t i) {
      return (order.delivered >> i & 1) == 0;
    });
  }
  std::vector<std::string> operator()(const PushOrder& order) const {
    return of_outputs(order, true, [&order](const OutputItem& item, std::size_t i) {
      return is_selected(order, item, i) && check_early(item);
    });
  }
  std::vector<std::string> operator()(const RecoverOrder& order) const {
    return {order.recover_to};
  }
  std::vector<std::string> operator()(const NoticeOrder& order) const {
    return {notice_directory(order.stdout_path, order.work_dir), order.work_dir};
  }
  // It writes to what is open.
  std::vector<std::string> operator()(const AppendOrder&) const { return {}; }
  // Any other task writes nowhere, or below the job directory.
  std::vector<std::string> operator()(const OrderHead&) const { return {}; }
};

// The last directory on `path` (absolute) that exists: of "/a/b/c" perhaps "/a".
Fd nearest_directory(const std::string& path) {
  if (!path.starts_with('/')) return {};
  for (std::string at = path; !at.empty(); at.resize(at.rfind('/'))) {
    if (auto fd = open_at(AT_FDCWD, at, k_directory)) return std::move(*fd);
  }
  auto root = open_at(AT_FDCWD, "/", k_directory);
  return root ? std::move(*root) : Fd();
}

// Shared by the thread that looks at foreign file systems and the thread that waits for it.
struct Search {
  std::mutex mutex;
  std::condition_variable ended;
  bool is_over = false;
  std::vector<Fd> found;
};

std::optional<std::vector<Fd>> find_directories(std::vector<std::string> paths,
                                                std::chrono::milliseconds patience) {
  const auto search = std::make_shared<Search>();
  std::thread([search, paths = std::move(paths)] {
    std::vector<Fd> found;
    for (const std::string& path : paths) {
      if (Fd directory = nearest_directory(path)) found.push_back(std::move(directory));
    }
    const std::lock_guard lock(search->mutex);
    search->found = std::move(found);
    search->is_over = true;
    search->ended.notify_one();
  }).detach();
  std::unique_lock lock(search->mutex);
  if (!search->ended.wait_for(lock, patience, [&] { return search->is_over; })) return std::nullopt;
  return std::move(search->found);
}

}  // namespace

std::optional<std::vector<Fd>> write_places(const WorkerOrder& order, const StageRequest& request,
                                            int job_fd, std::chrono::milliseconds patience) {
  std::vector<Fd> places;
  if (std::holds_alternative<StageOrder>(order) || std::holds_alternative<KeepOrder>(order) ||
      std::holds_alternative<RemoveOrder>(order) || std::holds_alternative<MeasureOrder>(order)) {
    if (auto job = open_beneath(job_fd, ".", k_directory)) places.push_back(std::move(*job));
    const auto* stage = std::get_if<StageOrder>(&order);
    if (stage == nullptr || stage->memory.directory.empty()) return places;
    if (auto memory = open_beneath(k_worker_memory_fd, ".", k_directory))
      places.push_back(std::move(*memory));
    return places;
  }
  std::vector<std::string> paths = std::visit(PathsOfTask{request, job_fd}, order);
  if (paths.empty()) return places;
  return find_directories(std::move(paths), patience);
}

}  // namespace nodestage

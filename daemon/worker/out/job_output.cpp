#include "daemon/worker/out/job_output.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "common/os/file.hpp"
#include "common/text/glob_text.hpp"
#include "common/text/human.hpp"
#include "common/wire/status_file.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/worker/basis/fault.hpp"
#include "daemon/worker/out/output_target.hpp"
#include "daemon/worker/tree/pending_file.hpp"
#include "daemon/worker/tree/tree_walk.hpp"

namespace nodestage {
namespace {

// Where others can write, too, what they have put there under the name may not be replaceable: then
// it is the name that a job of several nodes would have.
Status write_notice(const std::string& directory, NoticeOrder order, std::string_view text) {
  TRY_ASSIGN(const Fd into, open_at(AT_FDCWD, directory, O_PATH | O_DIRECTORY));
  const PendingName pending(into.get(), pending_names(order));
  TRY_ASSIGN(Fd file, pending.create_file(0600));
  TRY(write_all(file.get(), text));
  if (::fsync(file.get()) != 0) return system_error("cannot write");
  TRY(close_checked(std::move(file)));
  const Status committed = pending.commit(notice_name(order));
  if (committed || std::exchange(order.node_count, 2) > 1) return committed;
  return pending.commit(notice_name(order)) ? Status() : committed;
}

}  // namespace

std::string notice_directory(const std::string& stdout_path, const std::string& work_dir) {
  if (stdout_path.empty()) return work_dir;
  const std::string path =
      stdout_path.starts_with('/') ? stdout_path : work_dir + "/" + stdout_path;
  const std::size_t slash = path.rfind('/');
  const std::string directory = slash == 0 ? "/" : path.substr(0, slash);
  const bool is_device = path.starts_with("/dev/");
  return is_device || directory.find('%') != std::string::npos ? work_dir : directory;
}

std::string notice_name(const NoticeOrder& order) {
  std::string name = "nodestage-" + std::to_string(order.job);
  if (order.restart > 0) name += "." + std::to_string(order.restart);
  if (order.node_count > 1) name += "-" + order.node;
  return name + ".txt";
}

int run_notice(const NoticeOrder& order, std::string_view text) {
  const std::string first = notice_directory(order.stdout_path, order.work_dir);
  const Status written = write_notice(first, order, text);
  if (written) return 0;
  if (first != order.work_dir && write_notice(order.work_dir, order, text)) return 0;
  log_line("the notice cannot be written to " + first + ": " + written.error().text());
  return 1;
}

namespace {

constexpr std::uint64_t k_block = 512;  // of st_blocks

// Files with several names that were met, some of which may be outside of the tree.
using SeenFiles = std::set<std::pair<dev_t, ino_t>>;

void add(TreeSize& size, SeenFiles& seen, const WalkStep& step) {
  if (step.kind != WalkStep::Kind::leaf && step.kind != WalkStep::Kind::directory) return;
  const bool has_more_names = step.kind == WalkStep::Kind::leaf && step.info.st_nlink > 1;
  if (!has_more_names || seen.emplace(step.info.st_dev, step.info.st_ino).second)
    size.bytes += static_cast<std::uint64_t>(step.info.st_blocks) * k_block;
  ++size.inodes;
}

class Drop {
 public:
  Drop(const JobTree& tree, const StagedData& staged) : tree_(tree), staged_(staged) {}

  Status keep_outputs(const std::vector<OutputItem>& outputs) {
    for (const OutputItem& output : outputs) {
      TRY_ASSIGN(const OutputSource found, find_results(tree_, output.source, staged_));
      const std::set<std::string> changed(found.changed.begin(), found.changed.end());
      for (const std::string& path : found.paths)
        if (!changed.contains(path)) TRY(keep(path));
    }
    return {};
  }

  // Where a link of the job leads, all of what was staged stays: what is there counts as a result,
  // and links among what was staged can be on the way.
  Status keep_behind_links() {
    TRY_ASSIGN(TreeWalk walk, begin());
    for (;;) {
      TRY_ASSIGN(const auto step, walk.next());
      if (!step) return {};
      if (step->kind == WalkStep::Kind::fault) return step->fault;
      if (step->kind != WalkStep::Kind::leaf || !S_ISLNK(step->info.st_mode)) continue;
      const std::string path = walk.path(*step);
      if (!lies_in_any(path, kept_) && staged_.is_unchanged(path, step->info)) continue;
      has_links_ = true;
      TRY_ASSIGN(const ResolvedPath place, tree_.find({path}));
      if (const std::string item = staged_.item_at(place.path); !item.empty()) kept_.insert(item);
    }
  }

  Result<std::uint64_t> run() {
    TRY_ASSIGN(TreeWalk walk, begin());
    std::vector<bool> has_dropped{false};  // of each directory that the walk is in
    for (;;) {
      TRY_ASSIGN(const auto step, walk.next());
      if (!step) return bytes_;
      if (step->kind == WalkStep::Kind::directory) has_dropped.push_back(false);
      if (step->kind == WalkStep::Kind::leaf && drop(*step, walk.path(*step)))
        has_dropped.back() = true;
      if (step->kind != WalkStep::Kind::directory_end) continue;
      const bool may_be_empty = has_dropped.back();
      has_dropped.pop_back();
      if (may_be_empty && !has_links_ &&
          ::unlinkat(step->dir_fd, step->name.c_str(), AT_REMOVEDIR) == 0)
        has_dropped.back() = true;
    }
  }

 private:
  [[nodiscard]] Result<TreeWalk> begin() const {
    TRY_ASSIGN(Fd root, open_at(tree_.fd(), ".", O_PATH | O_DIRECTORY));
    return TreeWalk::begin(std::move(root), WalkFor::looking);
  }

  // As it is named, and where it leads.
  Status keep(const std::string& path) {
    TRY_ASSIGN(const ResolvedPath place, tree_.find({path}));
    const std::string name = std::filesystem::path(path).lexically_normal();
    kept_.insert(name.substr(0, name.find_last_not_of('/') + 1));
    kept_.insert(place.path);
    return {};
  }

  bool drop(const WalkStep& step, const std::string& path) {
    if (!staged_.is_as_staged(path, step.info) || lies_in_any(path, kept_)) return false;
    if (::unlinkat(step.dir_fd, step.name.c_str(), 0) != 0) return false;
    bytes_ += static_cast<std::uint64_t>(step.info.st_blocks) * k_block;
    return true;
  }

  const JobTree& tree_;
  const StagedData& staged_;
  std::set<std::string> kept_;  // paths below the tree, with all that lies in them
  bool has_links_ = false;
  std::uint64_t bytes_ = 0;
};

}  // namespace

Result<std::uint64_t> drop_staged(const StageRequest& request, const JobTree& tree,
                                  const StagedData& staged) {
  Drop drop(tree, staged);
  TRY(drop.keep_outputs(request.outputs));
  TRY(drop.keep_behind_links());
  return drop.run();
}

Result<TreeSize> measure_tree(int dir_fd) {
  Fd root(::fcntl(dir_fd, F_DUPFD_CLOEXEC, 0));
  if (!root) return system_error("the tree");
  TRY_ASSIGN(TreeWalk walk, TreeWalk::begin(std::move(root), WalkFor::reading));
  TreeSize size;
  SeenFiles seen;
  for (;;) {
    TRY_ASSIGN(const auto step, walk.next());
    if (!step) return size;
    add(size, seen, *step);
  }
}

int run_measure(const MeasureOrder& order, const StageRequest& request) {
  const JobTree tree(k_worker_directory_fd, order.directory);
  const StagedData staged(request, order, tree.fd());
  const auto dropped = drop_staged(request, tree, staged);
  if (!dropped)
    log_line("what was staged is kept with the results: " + dropped.error().text());
  else if (*dropped > 0)
    log_line(human_bytes(*dropped) + " of what was staged and is unchanged are not kept");
  const auto size = measure_tree(k_worker_directory_fd);
  if (size) {
    ItemRecord record{};
    record.bytes_total = size->bytes;
    record.files = size->inodes;
    static_cast<void>(write_status_item(k_worker_status_fd, 0, record));
  } else {
    log_line("the held tree cannot be measured: " + size.error().text());
  }
  const WorkerPhase phase = size ? WorkerPhase::done : WorkerPhase::failed;
  static_cast<void>(write_status_phase(k_worker_status_fd, phase, size ? 1 : 0));
  return size ? 0 : 1;
}

namespace {

// Opening neither waits for a FIFO nor makes a terminal this process's.
constexpr int k_append = O_RDWR | O_APPEND | O_NONBLOCK | O_NOCTTY;

// For sbatch, a backslash makes the next character literal and switches all patterns off.
std::string without_escapes(const std::string& path) {
  std::string name;
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (path[i] == '\\' && ++i == path.size()) break;
    name += path[i];
  }
  return name;
}

// What only sbatch knows, for a batch script: %t (task), %s (step), and %J (job and step).
std::string in_our_patterns(const std::string& path) {
  std::string name;
  for (std::size_t i = 0; i < path.size();) {
    const std::string part = path.substr(i, path[i] == '%' ? 2 : 1);
    i += part.size();
    name += part == "%t" ? "0" : part == "%s" ? "batch" : part == "%J" ? "%j" : part;
  }
  return name;
}

bool is_array_task(const AppendOrder& order) { return order.array_job != k_no_number; }

// The batch script is the first task of the job's first node.
Result<std::string> expand_as_sbatch(const AppendOrder& order) {
  if (order.stdout_path.empty()) {  // sbatch's default
    if (!order.array_known) return Error{ENODATA, "whether it is an array's task is not known"};
    return expand_pattern(is_array_task(order) ? "slurm-%A_%a.out" : "slurm-%j.out",
                          pattern_facts(order));
  }
  if (order.stdout_path.find('\\') != std::string::npos) return without_escapes(order.stdout_path);
  const std::string path = in_our_patterns(order.stdout_path);
  if (names_any(path, "r")) return Error{EINVAL, "%r is no pattern of sbatch"};
  const bool is_first =
      order.output_job == k_no_number && (order.node_index == 0 || order.node_count == 1);
  if (!is_first && names_any(path, "N")) return Error{ENODATA, "%N is the name of another node"};
  PatternFacts facts = pattern_facts(order);
  facts.node_index = 0;
  return expand_pattern(path, facts);
}

// Slurm gives all components the output of the first, and none of them is a task of an array.
AppendOrder as_first_component(AppendOrder order) {
  order.job = order.output_job;
  order.array_known = true;
  return order;
}

Status check_own(int fd, const std::string& path) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return system_error(path);
  if (!S_ISREG(info.st_mode)) return Error{EINVAL, path + " is not a regular file"};
  if (info.st_uid != ::geteuid()) return Error{EPERM, path + " is another user's"};
  if (info.st_nlink != 1) return Error{EMLINK, path + " has another name, too"};
  return {};
}

Result<Fd> opened_output(const std::string& path) {
  if (path.empty()) return Error{ENOENT, "the job has no output file that is known here"};
  // Nothing happens to a device by this, and the second name leads to what was looked at.
  TRY_ASSIGN(const Fd found, open_at(AT_FDCWD, path, O_PATH | O_NOFOLLOW));
  TRY(check_own(found.get(), path));
  return open_at(AT_FDCWD, "/proc/self/fd/" + std::to_string(found.get()), k_append);
}

Result<Fd> open_lines_file(const AppendOrder& order) {
  const std::string directory = notice_directory(order.stdout_path, order.work_dir);
  TRY_ASSIGN(const Fd into, open_at(AT_FDCWD, directory, O_PATH | O_DIRECTORY));
  const std::string name = lines_file_name(order.job);
  TRY_ASSIGN(Fd file, open_at(into.get(), name, k_append | O_CREAT | O_NOFOLLOW, 0600));
  TRY(check_own(file.get(), name));
  return file;
}

// On NFS, two nodes that append at once overwrite each other; elsewhere O_APPEND suffices. Where
// there are no locks, or this one is held for long, the lines are written without it. The patience
// is short where nodes are few, since whoever may read the output can hold its lock, and the epilog
// and the user's next notices wait: one of our appends has it for a moment.
void lock_for_a_while(int fd, std::uint32_t nodes) {
  constexpr std::chrono::milliseconds k_most = std::chrono::seconds(20);
  const auto patience = std::chrono::seconds(2) + nodes * std::chrono::milliseconds(50);
  const auto until = std::chrono::steady_clock::now() + std::min(k_most, patience);
  struct flock whole {};
  whole.l_type = F_WRLCK;
  while (::fcntl(fd, F_OFD_SETLK, &whole) != 0) {
    const bool is_busy = errno == EAGAIN || errno == EACCES || errno == EINTR;
    if (!is_busy || std::chrono::steady_clock::now() > until) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

bool ends_in_a_line(int fd) {
  struct stat info {};
  char last = '\n';
  if (::fstat(fd, &info) != 0 || info.st_size == 0) return true;
  return ::pread(fd, &last, 1, info.st_size - 1) != 1 || last == '\n';
}

Status append(int fd, std::string_view lines, std::uint32_t nodes) {
  lock_for_a_while(fd, nodes);
  const std::string text = (ends_in_a_line(fd) ? "" : "\n") + std::string(lines);
  TRY(write_all(fd, text));
  // NFS reports a full quota here, and other nodes see the lines once the lock is gone.
  if (::fsync(fd) != 0) return system_error("cannot write");
  return {};
}

}  // namespace

std::string job_output_path(const AppendOrder& order) {
  const auto path = expand_as_sbatch(order);
  if (!path) return "";
  return path->starts_with('/') ? *path : order.work_dir + "/" + *path;
}

Result<Fd> open_job_output(const AppendOrder& order) {
  if (order.lines_to == LinesTo::file) return open_lines_file(order);
  if (order.output_job == k_no_number) return opened_output(job_output_path(order));
  auto first = opened_output(job_output_path(as_first_component(order)));
  return first ? std::move(first) : open_lines_file(order);
}

int run_append(const Result<Fd>& output, std::string_view lines, std::uint32_t nodes) {
  if (!output) {
    log_line("the job's output gets no lines about its results: " + output.error().text());
    return 0;
  }
  const Status written = append(output->get(), lines, nodes);
  if (written) return 0;
  log_line("lines about the job's results are not in its output: " + written.error().text());
  return 1;
}

}  // namespace nodestage

#include "cli/run_dirs/private_directory.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "cli/process/worker_child.hpp"
#include "common/os/child.hpp"
#include "common/os/file.hpp"
#include "common/request/option_text.hpp"
#include "common/request/submission.hpp"
#include "common/text/human.hpp"
#include "daemon/worker/tree/remove_tree.hpp"

namespace nodestage {
namespace {

struct PrivateName {
  PrivateKind kind;
  std::string_view prefix;
};
constexpr PrivateName k_private_names[] = {
    {PrivateKind::job, "nodestage-run-"},
    {PrivateKind::record, "nodestage-push-"},
    {PrivateKind::memory, "nodestage-memory-"},
};

std::string chosen(const std::string& parent) {
  if (!parent.empty()) return parent;
  const std::string variable = own_variable("TMPDIR");
  return variable.empty() ? "/tmp" : variable;
}

Error not_of_a_run(const std::string& path) {
  return {EPERM, printable(path) + ": it is not a directory of `nodestage run` of yours"};
}

// Opens it, but not through a link nor into a mount.
Result<Fd> open_here(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return not_of_a_run(path);
  TRY_ASSIGN(const Fd parent,
             open_at(AT_FDCWD, slash == 0 ? "/" : path.substr(0, slash), O_PATH | O_DIRECTORY));
  auto fd = open_beneath(parent.get(), path.substr(slash + 1), O_RDONLY | O_DIRECTORY | O_NOFOLLOW,
                         0, RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);
  if (!fd) return system_error(path, fd.error().code);
  return fd;
}

Status check_private(int directory_fd, const std::string& path) {
  struct stat found {};
  if (::fstat(directory_fd, &found) != 0) return system_error(path);
  constexpr unsigned k_of_others = 077;
  const bool is_private = found.st_uid == ::geteuid() && (found.st_mode & k_of_others) == 0;
  return is_private ? Status() : not_of_a_run(path);
}

// Whoever may rename in the parent can have put another one of the caller's there.
Status check_empty(int directory_fd, const std::string& path) {
  auto names = DirectoryStream::at(directory_fd, ".");
  return names.next() ? Error{EEXIST, printable(path) + ": another directory was put in its place"}
                      : Status();
}

enum class Locked {
  yes,
  no,  // the file system has no locks of directories
};

// EWOULDBLOCK if another process has the lock.
Result<Locked> lock_directory(int directory_fd) {
  if (::flock(directory_fd, LOCK_EX | LOCK_NB) == 0) return Locked::yes;
  if (errno == EWOULDBLOCK) return Error{EWOULDBLOCK, "a process uses the directory"};
  return Locked::no;
}

// Before it was locked, another run may have taken it for one that was left, and removed it.
bool is_there(int directory_fd, const std::string& path) {
  struct stat own {};
  struct stat there {};
  return ::fstat(directory_fd, &own) == 0 && ::lstat(path.c_str(), &there) == 0 &&
         own.st_ino == there.st_ino && own.st_dev == there.st_dev;
}

Result<Fd> open_and_lock(const std::string& path) {
  TRY_ASSIGN(Fd fd, open_private(path));
  TRY(check_empty(fd.get(), path));
  TRY(lock_directory(fd.get()));
  if (!is_there(fd.get(), path)) return Error{EWOULDBLOCK, printable(path) + ": was removed"};
  return fd;
}

// Opens and locks one that was created just now. EWOULDBLOCK: another run was faster.
Result<Fd> open_made(const std::string& path) {
  auto fd = open_and_lock(path);
  if (!fd) ::rmdir(path.c_str());
  return fd;
}

Error not_made(const std::string& path) {
  return system_error("cannot create a directory in " + printable(path.substr(0, path.rfind('/'))));
}

}  // namespace

std::string_view private_prefix(PrivateKind kind) {
  const auto* const name =
      std::find_if(std::begin(k_private_names), std::end(k_private_names),
                   [kind](const PrivateName& each) { return each.kind == kind; });
  return name->prefix;
}

std::optional<PrivateKind> private_kind(std::string_view name) {
  for (const PrivateName& each : k_private_names) {
    if (name.starts_with(each.prefix)) return each.kind;
  }
  return {};
}

std::string path_beside(PrivateKind kind, const std::string& path) {
  const std::size_t name = path.rfind('/') + 1;
  const std::size_t end = path.rfind('-') + 1;
  return path.substr(0, name).append(private_prefix(kind)) + path.substr(std::max(name, end));
}

Result<std::string> private_parent(const std::string& wanted) {
  TRY_ASSIGN(std::string path, absolute_path(chosen(wanted), submit_place()));
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

Result<Fd> open_private(const std::string& path) {
  TRY_ASSIGN(Fd fd, open_here(path));
  TRY(check_private(fd.get(), path));
  return fd;
}

Result<std::string> mark_of(int directory_fd) {
  struct statx found {};
  if (::statx(directory_fd, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &found) != 0)
    return system_error("statx");
  std::string mark;
  for (const std::uint64_t part :
       {std::uint64_t{found.stx_dev_major}, std::uint64_t{found.stx_dev_minor},
        std::uint64_t{found.stx_ino}, static_cast<std::uint64_t>(found.stx_btime.tv_sec),
        std::uint64_t{found.stx_btime.tv_nsec}})
    mark += std::to_string(part) + " ";
  return mark;
}

Result<PrivateDirectory> PrivateDirectory::make(PrivateKind kind, const std::string& parent) {
  constexpr int k_name_tries = 100;
  TRY_ASSIGN(const std::string place, private_parent(parent));
  for (int i = 0; i < k_name_tries; ++i) {
    std::string path = (place + "/").append(private_prefix(kind)) + "XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) return not_made(path);
    auto fd = open_made(path);
    if (fd) return PrivateDirectory(path, std::move(*fd));
    if (fd.error().code != EWOULDBLOCK) return fd.error();
  }
  return Error{EBUSY, printable(place) + ": no directory can be locked there"};
}

Result<PrivateDirectory> PrivateDirectory::make_beside(PrivateKind kind,
                                                       const PrivateDirectory& other) {
  const std::string path = path_beside(kind, other.path());
  if (::mkdir(path.c_str(), 0700) != 0) return not_made(path);
  TRY_ASSIGN(Fd fd, open_made(path));
  return PrivateDirectory(path, std::move(fd));
}

Result<PrivateDirectory> PrivateDirectory::adopt(const std::string& path, const std::string& mark) {
  TRY_ASSIGN(Fd fd, open_here(path));
  TRY_ASSIGN(const std::string found, mark_of(fd.get()));
  if (found != mark) return not_of_a_run(path);
  PrivateDirectory directory(path, std::move(fd));
  directory.keep();
  return directory;
}

Result<PrivateDirectory> PrivateDirectory::adopt_unlocked(const std::string& path) {
  TRY_ASSIGN(Fd fd, open_private(path));
  TRY_ASSIGN(const Locked locked, lock_directory(fd.get()));
  if (locked == Locked::no) return Error{ENOLCK, printable(path) + ": cannot be locked"};
  PrivateDirectory directory(path, std::move(fd));
  directory.keep();
  return directory;
}

PrivateDirectory::PrivateDirectory(PrivateDirectory&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::move(other.fd_)),
      is_ours_(std::exchange(other.is_ours_, false)) {}

PrivateDirectory::~PrivateDirectory() {
  if (is_ours_) static_cast<void>(!remove());
}

Status PrivateDirectory::remove(const std::function<bool()>& must_stop) {
  is_ours_ = false;
  TRY(remove_tree_contents(fd_.get(), must_stop));
  if (::rmdir(path_.c_str()) != 0 && errno != ENOENT) return system_error(path_);
  return {};
}

namespace {

constexpr const char* k_order = "order";
constexpr const char* k_request = "request";
constexpr const char* k_program = "program";
constexpr const char* k_mark_file = "mark";
constexpr const char* k_list = "list";
constexpr const char* k_closed = "closed";
constexpr const char* k_alive = "alive";
constexpr const char* k_not_alive_yet = "alive.new";
constexpr unsigned k_mode = 0600;
constexpr std::size_t k_max_bytes = 1 << 20;  // of an order or a request

Status make_file(int directory_fd, const char* name, std::string_view text) {
  TRY_ASSIGN(const Fd file, open_at(directory_fd, name, O_WRONLY | O_CREAT | O_EXCL, k_mode));
  return write_all(file.get(), text);
}

// EWOULDBLOCK if another process has it.
Status lock(const Fd& file, const std::string& name) {
  return ::flock(file.get(), LOCK_EX | LOCK_NB) == 0 ? Status() : system_error(name);
}

bool has_no_locks(int code) { return code == ENOSYS || code == EOPNOTSUPP || code == ENOLCK; }

// It gets its name when it is locked: a file without a lock is one of a run that has died. Returns
// an empty descriptor where the file system has no locks.
Result<Fd> make_alive(int directory_fd) {
  TRY_ASSIGN(Fd file, open_at(directory_fd, k_not_alive_yet, O_RDWR | O_CREAT | O_EXCL, k_mode));
  const Status locked = lock(file, k_alive);
  const bool has_locks = locked || !has_no_locks(locked.error().code);
  if (has_locks) TRY(locked);
  TRY(write_all(file.get(), boot_id()));
  if (::renameat(directory_fd, k_not_alive_yet, directory_fd, k_alive) != 0)
    return system_error(k_alive);
  return has_locks ? std::move(file) : Fd();
}

Result<Fd> open_list(int directory_fd) {
  auto list = open_at(directory_fd, k_list, O_RDWR);
  return !list && list.error().code == ENOENT ? open_at(directory_fd, k_closed, O_RDWR)
                                              : std::move(list);
}

}  // namespace

Result<PushDirectory> PushDirectory::make(const std::string& parent) {
  PushDirectory directory;
  TRY_ASSIGN(PrivateDirectory own, PrivateDirectory::make(PrivateKind::record, parent));
  directory.own_.emplace(std::move(own));
  directory.path_ = directory.own_->path();
  TRY_ASSIGN(directory.alive_, make_alive(directory.fd()));
  return directory;
}

Status PushDirectory::record(const StageOutOrder& order, const std::string& request,
                             const std::string& program, int job_directory_fd) {
  order_ = order;
  request_ = request;
  program_ = program;
  TRY_ASSIGN(mark_, mark_of(job_directory_fd));
  TRY(make_file(fd(), k_list, ""));
  TRY(make_file(fd(), k_order, encode_order(order)));
  TRY(make_file(fd(), k_request, request));
  TRY(make_file(fd(), k_program, program));
  return make_file(fd(), k_mark_file, mark_);
}

Status PushDirectory::read() {
  TRY_ASSIGN(const std::string order, read_file(fd(), k_order, k_max_bytes));
  TRY_ASSIGN(order_, decode_stage_out(order));
  TRY_ASSIGN(request_, read_file(fd(), k_request, k_max_bytes));
  TRY_ASSIGN(program_, read_file(fd(), k_program, k_max_bytes));
  TRY_ASSIGN(mark_, read_file(fd(), k_mark_file, k_max_bytes));
  return {};
}

Result<PushDirectory> PushDirectory::open(const std::string& path) {
  PushDirectory directory;
  directory.path_ = path;
  // It names a program. The variable can have come here from another host, where any user can take
  // the path.
  TRY_ASSIGN(directory.fd_, open_private(path));
  TRY(directory.read());
  return directory;
}

Result<PushDirectory> PushDirectory::take_over(const std::string& path) {
  PushDirectory directory;
  directory.path_ = path;
  TRY_ASSIGN(directory.fd_, open_private(path));
  TRY_ASSIGN(directory.alive_, open_at(directory.fd(), k_alive, O_RDWR));
  TRY(lock(directory.alive_, k_alive));
  TRY_ASSIGN(directory.boot_, read_all(directory.alive_.get(), k_max_bytes));
  if (::faccessat(directory.fd(), k_mark_file, F_OK, 0) == 0) {
    TRY(directory.read());
    TRY_ASSIGN(const auto turn, directory.take_turn());
    if (!turn) return Error{EWOULDBLOCK, path + ": a worker still runs"};
  }
  TRY_ASSIGN(const std::string mark, mark_of(directory.fd()));
  TRY_ASSIGN(PrivateDirectory own, PrivateDirectory::adopt(path, mark));
  directory.own_.emplace(std::move(own));
  return directory;
}

Status PushDirectory::set_order(const StageOutOrder& order) {
  order_ = order;
  return replace_file(fd(), k_order, encode_order(order), k_mode);
}

Status PushDirectory::close() {
  if (::renameat(fd(), k_list, fd(), k_closed) == 0) return {};
  return system_error(printable(path_) + ", the record of this run");
}

bool PushDirectory::is_closed() const {
  return ::faccessat(fd(), k_list, F_OK, 0) != 0 || ::faccessat(fd(), k_closed, F_OK, 0) == 0;
}

Result<std::optional<PushTurn>> PushDirectory::take_turn() const {
  TRY_ASSIGN(Fd list, open_list(fd()));
  if (::flock(list.get(), LOCK_EX | LOCK_NB) == 0)
    return std::optional<PushTurn>(PushTurn{std::move(list)});
  if (errno == EWOULDBLOCK || errno == EINTR) return std::optional<PushTurn>();
  return system_error(path_ + "/" + k_list);
}

Result<std::optional<PushTurn>> PushDirectory::take_last_turn() const {
  auto turn = take_turn();
  if (turn || alive_ || !has_no_locks(turn.error().code)) return turn;
  TRY_ASSIGN(Fd list, open_list(fd()));
  return std::optional<PushTurn>(PushTurn{std::move(list)});
}

Result<WorkerChild> PushDirectory::start(PushTurn turn, WorkerOrder order, int directory_fd) const {
  if (DeliveryOrder* delivery = delivery_of(order)) delivery->keeps_list = true;
  auto worker = WorkerChild::start({program_, order, request_, directory_fd, turn.list.get()});
  if (!worker) return cannot_start_worker(worker.error());
  return worker;
}

}  // namespace nodestage

#include "cli/base/push_directory.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/base/worker_watch.hpp"
#include "common/os/boot_id.hpp"
#include "common/os/file.hpp"
#include "common/text/human.hpp"

namespace nodestage {
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

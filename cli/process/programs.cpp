#include "cli/process/programs.hpp"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <list>

#include "common/os/child.hpp"
#include "common/os/file.hpp"
#include "common/talk/summary.hpp"
#include "common/text/human.hpp"
#include "common/wire/daemon_client.hpp"

namespace nodestage {
namespace {

constexpr std::chrono::seconds k_grace{3};  // from SIGTERM to SIGKILL

bool become(const Account& account) {
  return ::initgroups(account.name.c_str(), account.gid) == 0 && ::setgid(account.gid) == 0 &&
         ::setuid(account.uid) == 0;
}

// Runs in the child. Returns only if the program cannot be run.
int become(Program program, int null, int out, int errors, pid_t parent) {
  std::vector<int> descriptors{null, out, errors};
  if (program.descriptor >= 0) descriptors.push_back(program.descriptor);
  descriptors.push_back(null);
  if (!place_descriptors(descriptors) || !reset_process()) return 126;
  if (program.account && !become(*program.account)) return 126;
  if (program.group == Program::Group::own) ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // after the change of uid, which would reset it
  if (::getppid() != parent) return 126;
  auto argv = exec_texts(program.words);
  if (!program.environment) {
    ::execvp(argv[0], argv.data());
  } else {
    ::execvpe(argv[0], argv.data(), exec_texts(*program.environment).data());
  }
  return errno == ENOENT ? 127 : 126;
}

class Running {
 public:
  Running(const Program& program, ProgramEnd& end, std::chrono::seconds limit)
      : end_(end), most_output_(program.most_output), limit_(Clock::now() + limit) {
    auto null = open_at(AT_FDCWD, "/dev/null", O_RDONLY);
    auto out = make_pipe();
    auto errors = make_pipe();
    end_.code = 126;
    if (!null || !out || !errors) return;
    const pid_t parent = ::getpid();
    auto child = ChildProcess::start(Orphan::killed, [&] {
      return become(program, null->get(), out->write.get(), errors->write.get(), parent);
    });
    if (!child) return;
    child_ = std::move(*child);
    out_ = std::move(out->read);
    errors_ = std::move(errors->read);
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  ~Running() { signal(SIGKILL); }

  // Whether the program, and every process that holds its output, has ended.
  bool has_ended() {
    if (!child_) return true;
    const bool over = Clock::now() >= limit_ + k_grace;
    if (over) {
      signal(SIGKILL);
    } else if (Clock::now() >= limit_ && !end_.late) {
      end_.late = true;
      signal(SIGTERM);
    }
    if (!over && (out_ || errors_)) return false;
    const auto status = over ? child_.wait() : child_.reap();
    if (status) end_.code = exit_code_of(*status);
    return status.has_value();
  }

  void add_to(std::vector<pollfd>& watched) const {
    for (const Fd* fd : {&out_, &errors_}) {
      if (*fd) watched.push_back({fd->get(), POLLIN, 0});
    }
  }
  void read(int ready) {
    if (ready == out_.get() && !read(out_, end_.output, most_output_)) end_.is_cut = true;
    if (ready == errors_.get()) read(errors_, end_.errors, k_most_errors);
  }

 private:
  // Sends it to the session, and to the process in case it has no session yet.
  void signal(int number) const {
    child_.signal_group(number);
    child_.signal(number);
  }
  // Returns whether `into` has all of it.
  static bool read(Fd& from, std::string& into, std::size_t most) {
    char block[65536];
    const ssize_t count = ::read(from.get(), block, sizeof block);
    if (count < 0 && errno == EINTR) return true;
    if (count <= 0) return from.reset(), true;
    const auto bytes = static_cast<std::size_t>(count);
    const std::size_t room = most - into.size();
    into.append(block, std::min(room, bytes));
    return bytes <= room;
  }

  ProgramEnd& end_;
  std::size_t most_output_;
  Deadline limit_;
  ChildProcess child_;
  Fd out_;
  Fd errors_;
};

}  // namespace

Result<Account> account_of(uid_t uid) {
  const passwd* entry = ::getpwuid(uid);
  if (entry == nullptr)
    return Error{ENOENT, "this host does not know the user with uid " + std::to_string(uid)};
  return Account{entry->pw_name, uid, entry->pw_gid};
}

std::vector<ProgramEnd> run_programs(const std::vector<Program>& programs,
                                     std::chrono::seconds limit, std::size_t at_once) {
  std::vector<ProgramEnd> ends(programs.size());
  std::list<Running> running;
  std::size_t next = 0;
  for (;;) {
    for (auto one = running.begin(); one != running.end();) {
      one = one->has_ended() ? running.erase(one) : std::next(one);
    }
    for (; running.size() < at_once && next < programs.size(); ++next)
      running.emplace_back(programs[next], ends[next], limit);
    if (running.empty()) return ends;
    std::vector<pollfd> watched;
    for (const Running& one : running) one.add_to(watched);
    // Polls soon again for a child that has closed its output.
    ::poll(watched.data(), watched.size(), watched.size() < 2 * running.size() ? 10 : 200);
    for (const pollfd& on : watched) {
      if (on.revents == 0) continue;
      for (Running& one : running) one.read(on.fd);
    }
  }
}

ProgramEnd run_program(const Program& program, std::chrono::seconds limit) {
  return run_programs({program}, limit).front();
}

std::string why_srun_failed(const ProgramEnd& end, std::chrono::seconds limit, std::size_t most) {
  if (end.late) return "no answer within " + std::to_string(limit.count()) + " s";
  if (end.is_not_run() && end.errors.empty()) return "srun cannot be run on this host";
  std::string_view why = end.errors;
  if (const std::size_t ours = why.find(k_line_start); ours != std::string_view::npos)
    why.remove_prefix(ours + k_line_start.size());
  why = why.substr(0, why.find('\n'));
  return why.empty() ? "srun failed without a message" : printable(shortened(why, most));
}

}  // namespace nodestage

#include "daemon/root/slurm/scontrol.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "common/os/child.hpp"
#include "common/os/file.hpp"
#include "daemon/root/workers/privileges.hpp"

namespace nodestage {
namespace {

// For the first id of an array, Slurm lists all tasks that it still knows.
constexpr std::size_t k_max_output = 4 << 20;
constexpr int k_blocks_at_once = 64;  // more than a pipe holds

// Returns only if the program cannot be started.
int become_program(const std::string& program, std::vector<std::string> arguments) {
  if (!drop_capabilities()) return 126;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  arguments.insert(arguments.begin(), program.substr(program.rfind('/') + 1));
  std::vector<std::string> environment = {"PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8"};
  if (const char* conf = ::getenv("SLURM_CONF"))
    environment.push_back(std::string("SLURM_CONF=") + conf);
  ::execve(program.c_str(), exec_texts(arguments).data(), exec_texts(environment).data());
  return 127;
}

}  // namespace

Scontrol::~Scontrol() {
  if (!child_) return;
  kill();
  static_cast<void>(child_->process.reap());
  end_child();
}

Status Scontrol::run_program(const std::string& program, std::vector<std::string> arguments,
                             OnEnd on_end) {
  TRY_ASSIGN(const Fd null, open_at(AT_FDCWD, "/dev/null", O_RDONLY));
  TRY_ASSIGN(Pipe pipe, make_pipe());
  ::fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK);
  const auto body = [&] {
    const int out = pipe.write.get();
    if (!place_descriptors({null.get(), out, out, null.get()}) || !reset_process()) return 126;
    return become_program(program, std::move(arguments));
  };
  TRY_ASSIGN(ChildProcess process, ChildProcess::start(Orphan::left, body));
  child_.emplace(Child{std::move(on_end), std::move(process), {}, std::move(pipe.read), {}, {}});
  child_->limit = loop_.after(std::chrono::seconds(config_.slurm.answer_wait_s),
                              [this] { kill(); });  // ended() follows
  auto pid_fd = open_pid(child_->process.pid());
  if (!pid_fd || !loop_.watch(pid_fd->get(), [this] { ended(); })) {
    child_->process.signal(SIGKILL);
    static_cast<void>(child_->process.wait());
    end_child();
    return Error{EAGAIN, "scontrol cannot be watched"};
  }
  child_->pid_fd = std::move(*pid_fd);
  return loop_.watch(child_->output.get(), [this] { read_output(); });
}

// And what it has started.
void Scontrol::kill() {
  child_->process.signal_group(SIGKILL);
  child_->process.signal(SIGKILL);
}

void Scontrol::read_output() {
  char block[4096];
  for (int i = 0; i < k_blocks_at_once; ++i) {
    const ssize_t count = ::read(child_->output.get(), block, sizeof block);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count <= 0) return loop_.forget(child_->output.get());  // ended() follows
    const std::size_t room = k_max_output - child_->text.size();
    child_->text.append(block, std::min(room, static_cast<std::size_t>(count)));
  }
}

void Scontrol::ended() {
  read_output();
  const auto status = child_->process.reap();
  Output output{std::move(child_->text), status == 0};
  if (output.text.size() == k_max_output) output.text.clear();
  const OnEnd on_end = std::move(child_->on_end);
  end_child();
  on_end(output);
}

void Scontrol::end_child() {
  loop_.cancel(child_->limit);
  if (child_->pid_fd) loop_.forget(child_->pid_fd.get());
  loop_.forget(child_->output.get());
  child_.reset();
}

}  // namespace nodestage

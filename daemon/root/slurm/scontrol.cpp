#include "daemon/root/slurm/scontrol.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
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
int become_scontrol(const std::string& program, std::vector<std::string> arguments) {
  if (!drop_capabilities()) return 126;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::string name = "scontrol", path = "PATH=/usr/bin:/bin", locale = "LC_ALL=C.UTF-8";
  const char* conf = ::getenv("SLURM_CONF");
  std::string slurm_conf = std::string("SLURM_CONF=") + (conf == nullptr ? "" : conf);
  std::vector<char*> argv{name.data()};
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  char* const environment[] = {path.data(), locale.data(),
                               conf == nullptr ? nullptr : slurm_conf.data(), nullptr};
  ::execve(program.c_str(), argv.data(), environment);
  return 127;
}

}  // namespace

Scontrol::~Scontrol() {
  if (!child_) return;
  ::kill(-child_->pid, SIGKILL);
  ::kill(child_->pid, SIGKILL);
  ::waitpid(child_->pid, nullptr, WNOHANG);
  end_child();
}

Status Scontrol::run(std::vector<std::string> arguments, OnEnd on_end) {
  TRY_ASSIGN(const Fd null, open_at(AT_FDCWD, "/dev/null", O_RDONLY));
  TRY_ASSIGN(Pipe pipe, make_pipe());
  ::fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK);
  const pid_t pid = ::fork();
  if (pid < 0) return system_error("fork");
  if (pid == 0) {
    const int out = pipe.write.get();
    if (!place_descriptors({null.get(), out, out, null.get()}) || !reset_process()) ::_exit(126);
    ::_exit(become_scontrol(config_.slurm.scontrol, std::move(arguments)));
  }
  child_.emplace(Child{std::move(on_end), pid, {}, std::move(pipe.read), {}, {}});
  child_->limit = loop_.after(std::chrono::seconds(config_.slurm.answer_wait_s), [this] {
    ::kill(-child_->pid, SIGKILL);  // and its children; ended() follows
    ::kill(child_->pid, SIGKILL);
  });
  auto pid_fd = open_pid(pid);
  if (!pid_fd || !loop_.watch(pid_fd->get(), [this] { ended(); })) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    end_child();
    return Error{EAGAIN, "scontrol cannot be watched"};
  }
  child_->pid_fd = std::move(*pid_fd);
  return loop_.watch(child_->output.get(), [this] { read_output(); });
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
  int status = -1;
  ::waitpid(child_->pid, &status, WNOHANG);
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

#include "daemon/root/slurm_question.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

#include "common/file.hpp"
#include "daemon/root/child.hpp"
#include "daemon/root/privileges.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_max_output = 256 * 1024;
constexpr std::array<std::string_view, 9> k_ended = {"COMPLETED", "CANCELLED", "FAILED",
                                                     "TIMEOUT",   "NODE_FAIL", "PREEMPTED",
                                                     "BOOT_FAIL", "DEADLINE",  "OUT_OF_MEMORY"};

// The line about this job: an array's id brings those of its other tasks, too.
std::string_view line_about(std::uint32_t job, std::string_view output) {
  const std::string begin = "JobId=" + std::to_string(job) + " ";
  while (!output.empty()) {
    const std::string_view line = output.substr(0, output.find('\n'));
    if (line.starts_with(begin)) return line;
    output.remove_prefix(std::min(line.size() + 1, output.size()));
  }
  return {};
}

std::string_view field(std::string_view line, std::string_view name) {
  const std::size_t at = line.find(name);
  if (at == std::string_view::npos) return {};
  line.remove_prefix(at + name.size());
  return line.substr(0, line.find(' '));
}

// Returns only when it cannot be started.
int become_scontrol(const std::string& program, std::uint32_t job) {
  if (!drop_capabilities()) return 126;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::string name = "scontrol", oneliner = "--oneliner", show = "show", what = "job";
  std::string id = std::to_string(job);
  std::string path = "PATH=/usr/bin:/bin", locale = "LC_ALL=C.UTF-8";
  const char* conf = ::getenv("SLURM_CONF");
  std::string slurm_conf = std::string("SLURM_CONF=") + (conf == nullptr ? "" : conf);
  char* const argv[] = {name.data(), oneliner.data(), show.data(), what.data(), id.data(), nullptr};
  char* const environment[] = {path.data(), locale.data(),
                               conf == nullptr ? nullptr : slurm_conf.data(), nullptr};
  ::execve(program.c_str(), argv, environment);
  return 127;
}

}  // namespace

SlurmAnswer read_answer(const JobKey& run, std::string_view output) {
  const std::string_view line = line_about(run.job, output);
  if (line.empty()) {
    const bool unknown = output.find("Invalid job id specified") != std::string_view::npos &&
                         output.find("JobId=") == std::string_view::npos;
    return unknown ? SlurmAnswer::gone : SlurmAnswer::unclear;
  }
  const std::string_view state = field(line, " JobState=");
  const std::string_view count = field(line, " Restarts=");
  if (state.empty() || count.empty()) return SlurmAnswer::unclear;
  // The count may be that of the run to come already, while epilogs of this one are due.
  if (state == "COMPLETING") return SlurmAnswer::here;
  if (std::find(k_ended.begin(), k_ended.end(), state) != k_ended.end()) return SlurmAnswer::gone;
  std::uint32_t restart = 0;
  if (std::from_chars(count.data(), count.data() + count.size(), restart).ec != std::errc())
    return SlurmAnswer::unclear;
  return restart > run.restart ? SlurmAnswer::gone : SlurmAnswer::here;
}

SlurmQuestion::~SlurmQuestion() {
  if (!child_) return;
  ::kill(-child_->pid, SIGKILL);
  ::kill(child_->pid, SIGKILL);
  ::waitpid(child_->pid, nullptr, WNOHANG);
  end_child();
}

Status SlurmQuestion::ask(const JobKey& run, OnAnswer on_answer) {
  TRY_ASSIGN(const Fd null, open_at(AT_FDCWD, "/dev/null", O_RDONLY));
  TRY_ASSIGN(Pipe pipe, make_pipe());
  ::fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK);
  const pid_t pid = ::fork();
  if (pid < 0) return system_error("fork");
  if (pid == 0) {
    const int out = pipe.write.get();
    if (!place_descriptors({null.get(), out, out, null.get()}) || !reset_process()) ::_exit(126);
    ::_exit(become_scontrol(config_.slurm.scontrol, run.job));
  }
  child_.emplace(Child{run, std::move(on_answer), pid, {}, std::move(pipe.read), {}, {}});
  child_->limit = loop_.after(std::chrono::seconds(config_.slurm.answer_wait_s), [this] {
    ::kill(-child_->pid, SIGKILL);  // and what it has started; ended() follows
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

void SlurmQuestion::read_output() {
  char block[4096];
  for (;;) {
    const ssize_t count = ::read(child_->output.get(), block, sizeof block);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count <= 0) return loop_.forget(child_->output.get());  // ended() follows
    const std::size_t room = k_max_output - child_->text.size();
    child_->text.append(block, std::min(room, static_cast<std::size_t>(count)));
    if (child_->text.size() == k_max_output) return loop_.forget(child_->output.get());
  }
}

void SlurmQuestion::ended() {
  read_output();
  ::waitpid(child_->pid, nullptr, WNOHANG);
  const SlurmAnswer answer = child_->text.size() == k_max_output
                                 ? SlurmAnswer::unclear
                                 : read_answer(child_->run, child_->text);
  const OnAnswer on_answer = std::move(child_->on_answer);
  end_child();
  on_answer(answer);
}

void SlurmQuestion::end_child() {
  loop_.cancel(child_->limit);
  if (child_->pid_fd) loop_.forget(child_->pid_fd.get());
  loop_.forget(child_->output.get());
  child_.reset();
}

}  // namespace nodestage

#include "daemon/worker/venv/builder.hpp"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <optional>

#include "common/os/child.hpp"
#include "common/os/file.hpp"
#include "common/text/parsing.hpp"
#include "daemon/worker/basis/fault.hpp"
#include "daemon/worker/sandbox/sandbox.hpp"

namespace nodestage {
namespace {

std::string config_directory(const BuildVariables& variables, const std::string& home) {
  const std::string own = value_in(variables, "XDG_CONFIG_HOME");
  return own.empty() ? home + "/.config" : own;
}

}  // namespace

std::string_view name_of_variable(std::string_view variable) {
  return variable.substr(0, variable.find('='));
}

std::string value_in(const BuildVariables& variables, std::string_view name) {
  for (const auto& variable : variables) {
    if (name_of_variable(variable) == name && variable.size() > name.size())
      return variable.substr(name.size() + 1);
  }
  return {};
}

void set_variable(BuildVariables& variables, const std::string& name, const std::string& value) {
  std::erase_if(variables, [&](const auto& other) { return name_of_variable(other) == name; });
  variables.push_back(name + "=" + value);
}

// As pip itself: with a file in PIP_CONFIG_FILE, the user's do not count, and with /dev/null there,
// none does.
std::vector<std::string> pip_settings(const BuildVariables& variables, const std::string& home) {
  const std::string named = value_in(variables, "PIP_CONFIG_FILE");
  if (named == "/dev/null") return {};
  std::vector<std::string> files{"/etc/xdg/pip/pip.conf", "/etc/pip.conf"};
  if (named.empty() || ::access(named.c_str(), F_OK) != 0) {
    files.push_back(home + "/.pip/pip.conf");
    files.push_back(config_directory(variables, home) + "/pip/pip.conf");
  }
  if (!named.empty()) files.push_back(named);
  return files;
}

std::vector<std::string> uv_settings(const BuildVariables& variables, const std::string& home,
                                     const std::string& directory) {
  return {value_in(variables, "UV_CONFIG_FILE"), config_directory(variables, home) + "/uv/uv.toml",
          "/etc/uv/uv.toml", directory + "uv.toml", directory + "pyproject.toml"};
}

namespace {

constexpr std::uint32_t k_max_message = 8 * 1024 * 1024;
constexpr std::chrono::milliseconds k_stop_poll{100};
constexpr std::chrono::seconds k_check_interval{1};
constexpr int k_not_started = 127;
constexpr char k_gone[] = "the process that builds environments has exited";

// A message: u32 size of what follows, then texts, each terminated by a NUL. First, from the
// builder: "1" or "0" for each half of its sandbox, what is lacking, the fault. Then, for each
// command, to the builder: directory, log, output, the number of arguments, the arguments, the
// environment; and back from it an int, the exit code.
std::string message_of(const std::vector<std::string>& texts) {
  std::string body;
  for (const auto& text : texts) body.append(text).push_back('\0');
  const auto size = static_cast<std::uint32_t>(body.size());
  return std::string(reinterpret_cast<const char*>(&size), sizeof size) + body;
}

std::string take_text(std::string_view& body) { return std::string(take_part(body, '\0')); }

std::string encode(const Sandbox& sandbox) {
  return message_of({sandbox.writes_confined ? "1" : "0", sandbox.calls_filtered ? "1" : "0",
                     sandbox.lacking, sandbox.fault});
}

Sandbox decode_sandbox(std::string_view body) {
  Sandbox sandbox;
  sandbox.writes_confined = take_text(body) == "1";
  sandbox.calls_filtered = take_text(body) == "1";
  sandbox.lacking = take_text(body);
  sandbox.fault = take_text(body);
  return sandbox;
}

std::string encode(const BuildCommand& command) {
  std::vector<std::string> texts = {command.directory, command.log, command.output,
                                    std::to_string(command.arguments.size())};
  texts.insert(texts.end(), command.arguments.begin(), command.arguments.end());
  texts.insert(texts.end(), command.environment.begin(), command.environment.end());
  return message_of(texts);
}

BuildCommand decode_command(std::string_view body) {
  const auto take = [&body] { return take_text(body); };
  BuildCommand command;
  command.directory = take();
  command.log = take();
  command.output = take();
  auto count = parse_number<std::size_t>(take()).value_or(0);
  while (count-- > 0 && !body.empty()) command.arguments.push_back(take());
  while (!body.empty()) command.environment.push_back(take());
  return command;
}

// Returns false at the end of the pipe, when the process on the other side has exited.
bool receive(int pipe, void* data, std::size_t size) {
  auto* at = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t count = ::read(pipe, at, size);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    at += count;
    size -= static_cast<std::size_t>(count);
  }
  return true;
}

std::optional<std::string> receive_message(int pipe) {
  std::uint32_t size = 0;
  if (!receive(pipe, &size, sizeof size) || size > k_max_message) return {};
  std::string body(size, '\0');
  if (!receive(pipe, body.data(), size)) return {};
  return body;
}

// ---- in the builder

int open_output(const std::string& path) {
  constexpr int k_flags = O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC;
  return ::open(path.c_str(), k_flags, 0600);
}

// Returns only when it cannot be started: the exit code.
int become(BuildCommand& command) {
  ::setpgid(0, 0);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int signal : {SIGPIPE, SIGXFSZ, SIGCHLD}) static_cast<void>(::signal(signal, SIG_DFL));
  const int log = open_output(command.log);
  const int output = command.output.empty() ? log : open_output(command.output);
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  const bool placed = ::dup2(null, 0) == 0 && ::dup2(output, 1) == 1 && ::dup2(log, 2) == 2;
  if (placed && ::chdir(command.directory.c_str()) == 0) {
    auto arguments = exec_texts(command.arguments);
    auto environment = exec_texts(command.environment);
    ::execve(arguments[0], arguments.data(), environment.data());
  }
  const std::string cause = system_error(command.arguments[0]).what + "\n";
  static_cast<void>(!write_all(2, std::string_view(cause)));
  return k_not_started;
}

// Kills what a command left behind, in whatever session: it became our child (subreaper).
void end_children() {
  for (;;) {
    const auto list = read_file(AT_FDCWD, "/proc/thread-self/children", 1 << 20);
    std::string_view rest = list ? std::string_view(*list) : std::string_view();
    bool any = false;
    while (!rest.empty()) {
      const auto pid = take_number<int>(rest);
      if (pid && *pid > 0) any = ::kill(*pid, SIGKILL) == 0 || any;
      rest.remove_prefix(std::min<std::size_t>(1, rest.size()));
    }
    const pid_t ended = ::waitpid(-1, nullptr, any ? 0 : WNOHANG);
    // The kernel may omit children from the list that arrive while it is written.
    if (ended < 0 || (ended == 0 && !list)) return;
  }
}

// Returns the command's status; empty if the worker has exited.
std::optional<int> wait_for(ChildProcess& child, int commands) {
  const auto ended = open_pid(child.pid());
  pollfd on[] = {{ended ? ended->get() : -1, POLLIN, 0}, {commands, POLLIN, 0}};
  for (;;) {
    if (::poll(on, 2, -1) < 0 && errno != EINTR) return {};
    if (on[1].revents != 0) return {};
    if (on[0].revents != 0) return child.wait();
  }
}

bool serve_one(int commands, int answers) {
  const auto body = receive_message(commands);
  if (!body) return false;
  BuildCommand command = decode_command(*body);
  if (command.arguments.empty()) return false;
  // end_children() waits for it, with all that it has started.
  auto child = ChildProcess::start(Orphan::left, [&command] { return become(command); });
  if (!child) return false;
  const pid_t group = child->pid();
  ::setpgid(group, group);
  const auto status = wait_for(*child, commands);
  ::kill(-group, SIGKILL);
  end_children();
  if (!status) return false;
  const int code = exit_code_of(*status);
  return static_cast<bool>(
      write_all(answers, std::string_view(reinterpret_cast<const char*>(&code), sizeof code)));
}

// Returns the exit code.
int serve(int commands, int answers, int job_fd) {
  ::prctl(PR_SET_NAME, "nodestage-build");
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  if (!write_all(answers, std::string_view(encode(enter_build_sandbox(job_fd))))) return 1;
  // The commands must not inherit what this process did, above all the status file.
  ::syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC);
  try {
    while (serve_one(commands, answers)) continue;
  } catch (const std::exception&) {  // no memory: the worker sees that the pipe is closed
  }
  end_children();
  return 0;
}

}  // namespace

Result<Builder> Builder::start(int job_fd, mode_t umask) {
  TRY_ASSIGN(Pipe commands, make_pipe());
  TRY_ASSIGN(Pipe answers, make_pipe());
  // Not waited for as a child: it goes with this process.
  TRY(ChildProcess::start(Orphan::left, [&] {
    commands.write.reset();
    answers.read.reset();
    ::umask(umask);
    return serve(commands.read.get(), answers.write.get(), job_fd);
  }));
  static_cast<void>(::signal(SIGPIPE, SIG_IGN));
  answers.write.reset();
  const auto sandbox = receive_message(answers.read.get());
  if (!sandbox) return Error{EPIPE, k_gone};
  return Builder(std::move(commands.write), std::move(answers.read), decode_sandbox(*sandbox));
}

Builder::~Builder() { end(); }

// The builder sees the end of its commands, kills what it runs, and exits, which closes its
// answers. (It is not waited for as a child; it exits with this process.)
void Builder::end() {
  if (!commands_) return;
  commands_.reset();
  char rest[64];
  ssize_t count = 0;
  do {
    count = ::read(answers_.get(), rest, sizeof rest);
  } while (count > 0 || (count < 0 && errno == EINTR));
}

Result<int> Builder::run(const BuildCommand& command, Clock::time_point deadline,
                         const std::atomic<bool>& stop, const std::function<Status()>& check) {
  const Error gone{EPIPE, k_gone};
  if (!commands_ || !write_all(commands_.get(), std::string_view(encode(command)))) return gone;
  auto next_check = Clock::now() + k_check_interval;
  const auto early = [this](Error error) {
    end();
    return error;
  };
  for (;;) {
    pollfd answer{answers_.get(), POLLIN, 0};
    if (::poll(&answer, 1, static_cast<int>(k_stop_poll.count())) > 0) {
      int code = 0;
      if (receive(answers_.get(), &code, sizeof code)) return code;
      return early(gone);
    }
    if (stop) return early(stopped());
    const auto now = Clock::now();
    if (now >= deadline) return early(Error{ETIMEDOUT, "the time for it is over"});
    if (now < next_check) continue;
    next_check = now + k_check_interval;
    if (Status fine = check(); !fine) return early(std::move(fine.error()));
  }
}

}  // namespace nodestage

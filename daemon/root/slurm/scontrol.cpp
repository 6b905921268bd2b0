#include "daemon/root/slurm/scontrol.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "common/text/parsing.hpp"
#include "daemon/root/workers/worker_process.hpp"

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

Status Scontrol::run(std::vector<std::string> arguments, OnEnd on_end) {
  TRY_ASSIGN(const Fd null, open_at(AT_FDCWD, "/dev/null", O_RDONLY));
  TRY_ASSIGN(Pipe pipe, make_pipe());
  ::fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK);
  const auto body = [&] {
    const int out = pipe.write.get();
    if (!place_descriptors({null.get(), out, out, null.get()}) || !reset_process()) return 126;
    return become_program(config_.slurm.scontrol, std::move(arguments));
  };
  TRY_ASSIGN(ChildProcess process, ChildProcess::start(Orphan::left, body));
  child_.emplace(Child{std::move(on_end), std::move(process), {}, std::move(pipe.read), {}, {}});
  child_->limit = loop_.after(std::chrono::seconds(config_.slurm.answer_wait_s),
                              [this] { kill(); });  // ended() follows
  if (auto pid_fd = open_pid(child_->process.pid())) child_->pid_fd = std::move(*pid_fd);
  if (!child_->pid_fd || !loop_.watch(child_->pid_fd.get(), [this] { ended(); }) ||
      !loop_.watch(child_->output.get(), [this] { read_output(); })) {
    child_->process.signal(SIGKILL);
    static_cast<void>(child_->process.wait());
    end_child();
    return Error{EAGAIN, "scontrol cannot be watched"};
  }
  return {};
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

namespace {

constexpr std::array<std::string_view, 9> k_ended = {"COMPLETED", "CANCELLED", "FAILED",
                                                     "TIMEOUT",   "NODE_FAIL", "PREEMPTED",
                                                     "BOOT_FAIL", "DEADLINE",  "OUT_OF_MEMORY"};

bool is_ended(std::string_view state) {
  return std::find(k_ended.begin(), k_ended.end(), state) != k_ended.end();
}

// Some minutes after a job's end (MinJobAge), Slurm forgets it. A name can say so, too.
bool is_forgotten(std::string_view output) {
  return output.find("JobId=") == std::string_view::npos &&
         output.find("Invalid job id specified") != std::string_view::npos;
}

// Returns the line about this job. For an array's id, Slurm prints those of its other tasks, too.
std::string_view line_about(std::uint32_t job, std::string_view output) {
  const std::string begin = "JobId=" + std::to_string(job) + " ";
  while (!output.empty()) {
    const std::string_view line = output.substr(0, output.find('\n'));
    if (line.starts_with(begin)) return line;
    output.remove_prefix(std::min(line.size() + 1, output.size()));
  }
  return {};
}

// A field of it, named as " Restarts=".
std::string_view field_of(std::string_view line, std::string_view name) {
  const std::size_t at = line.find(name);
  if (at == std::string_view::npos) return {};
  line.remove_prefix(at + name.size());
  return line.substr(0, line.find(' '));
}

}  // namespace

SlurmAnswer read_answer(const JobKey& run, std::string_view output) {
  const std::string_view line = line_about(run.job, output);
  if (line.empty()) {
    if (is_forgotten(output)) return SlurmAnswer::gone;
    const bool is_of_others = output.find("JobId=") != std::string_view::npos;
    return is_of_others ? SlurmAnswer::unclear : SlurmAnswer::none;
  }
  const std::string_view state = field_of(line, " JobState=");
  std::string_view count = field_of(line, " Restarts=");
  if (state.empty() || count.empty()) return SlurmAnswer::unclear;
  // The count may already be that of the next run while epilogs of this one are still due.
  if (state == "COMPLETING") return SlurmAnswer::here;
  if (is_ended(state)) return SlurmAnswer::gone;
  const auto restart = take_number<std::uint32_t>(count);
  if (!restart) return SlurmAnswer::unclear;
  return *restart > run.restart ? SlurmAnswer::gone : SlurmAnswer::here;
}

Status SlurmQuestion::ask(const JobKey& run, OnAnswer on_answer) {
  return scontrol_.run({"--oneliner", "show", "job", std::to_string(run.job)},
                       [run, on_answer = std::move(on_answer)](const Scontrol::Output& output) {
                         const SlurmAnswer answer = read_answer(run, output.text);
                         const bool too_long = output.succeeded && answer == SlurmAnswer::none;
                         on_answer(too_long ? SlurmAnswer::unclear : answer);
                       });
}

namespace {

constexpr std::string_view k_title = "slurmstepd: [";

// Slurm's step manager takes on its user's rights at times, but its real uid stays root.
bool is_stepd_of_root(const std::string& process) {
  const auto name = read_file(AT_FDCWD, process + "/comm", 64);
  if (!name || *name != "slurmstepd\n") return false;
  const auto status = read_file(AT_FDCWD, process + "/status", 16 * 1024);
  return status && status->find("\nUid:\t0\t") != std::string::npos;
}

}  // namespace

std::optional<std::uint32_t> job_of_step(std::string_view command_line) {
  if (!command_line.starts_with(k_title)) return {};
  command_line.remove_prefix(k_title.size());
  const auto job = take_number<std::uint32_t>(command_line);
  return command_line.starts_with('.') ? job : std::nullopt;
}

std::set<std::uint32_t> jobs_with_steps() {
  std::set<std::uint32_t> jobs;
  auto processes = DirectoryStream::at(AT_FDCWD, "/proc");
  while (const auto name = processes.next()) {
    if (name->front() < '1' || name->front() > '9') continue;
    const std::string process = std::string("/proc/").append(*name);
    if (!is_stepd_of_root(process)) continue;
    const auto line = read_file(AT_FDCWD, process + "/cmdline", 4096);
    if (!line) continue;
    if (const auto job = job_of_step(*line)) jobs.insert(*job);
  }
  return jobs;
}

namespace {

constexpr double k_scontrol_unit = 1 << 20;

// "200M", "1.50G"; MiB without a unit.
std::uint64_t bytes_in(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0) return 0;
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  constexpr std::string_view k_units = "MGTP";
  double times = unit.starts_with('K') ? k_scontrol_unit / 1024 : k_scontrol_unit;
  for (const char known : k_units) {
    if (unit.starts_with(known)) break;
    if (!unit.empty() && k_units.find(unit.front()) != std::string_view::npos) times *= 1024;
  }
  const double bytes = value * times;
  return bytes < 1e18 ? static_cast<std::uint64_t>(bytes) : 0;
}

}  // namespace

std::uint64_t memory_of_job(std::uint32_t job, std::uint32_t cpus, std::string_view output) {
  const std::string_view line = line_about(job, output);
  if (const std::uint64_t node = bytes_in(field_of(line, " MinMemoryNode=")); node != 0)
    return node;
  return bytes_in(field_of(line, " MinMemoryCPU=")) * cpus;
}

BatchScript batch_script_of(std::uint32_t job, std::string_view output) {
  if (is_forgotten(output)) return BatchScript::over;
  const std::string_view line = line_about(job, output);
  const std::string_view script = field_of(line, " BatchFlag=");
  if (script.empty()) return BatchScript::unknown;
  if (script == "0") return BatchScript::none;
  const std::string_view state = field_of(line, " JobState=");
  return state == "COMPLETING" || is_ended(state) ? BatchScript::over : BatchScript::runs;
}

std::string name_of_job(std::uint32_t job, std::string_view output) {
  static constexpr std::string_view k_before = " JobName=";
  constexpr std::size_t k_most = 255;  // of the name of a file
  std::string_view line = line_about(job, output);
  line.remove_prefix(std::min(line.find(k_before), line.size()));
  line.remove_prefix(std::min(k_before.size(), line.size()));
  const std::size_t end = line.find(" UserId=");
  return end <= k_most ? std::string(line.substr(0, end)) : std::string();
}

void JobQuestions::ask(const std::string& id, OnAnswer on_answer) {
  waiting_.push_back({id, std::move(on_answer)});
  ask_next();
}

void JobQuestions::ask_next() {
  if (waiting_.empty() || scontrol_.busy()) return;
  const Question question = std::move(waiting_.front());
  waiting_.pop_front();
  const Status asked = scontrol_.run({"--oneliner", "show", "job", question.id},
                                     [this, question](const Scontrol::Output& output) {
                                       question.on_answer(output.text);
                                       ask_next();
                                     });
  if (asked) return;
  question.on_answer({});
  ask_next();
}

}  // namespace nodestage

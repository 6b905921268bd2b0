#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "cli/process/worker_child.hpp"
#include "cli/run/run.hpp"
#include "cli/slurm/slurm_job.hpp"
#include "common/os/child.hpp"
#include "common/os/file.hpp"
#include "common/os/mounts.hpp"
#include "common/request/job_environment.hpp"
#include "common/request/source_names.hpp"
#include "common/request/submission.hpp"
#include "common/talk/summary.hpp"
#include "common/text/glob_text.hpp"
#include "common/text/human.hpp"
#include "common/text/parsing.hpp"
#include "daemon/worker/out/output_target.hpp"

namespace nodestage {
namespace {

constexpr const char* k_no_task =
    "This is not a task of a job array: give it a number with SLURM_ARRAY_TASK_ID=1 before the "
    "command, or leave the pattern out.";
constexpr std::chrono::seconds k_push_look{1};
constexpr std::chrono::hours k_no_hurry{1};

constexpr std::size_t k_most_read = 256;  // the kernel looks at no more of a first line

bool is_file(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

// Without its newline.
std::string first_line_of_file(const std::string& file) {
  const auto fd = open_at(AT_FDCWD, file, O_RDONLY | O_NONBLOCK);
  char block[k_most_read];
  const ssize_t count = fd ? ::read(fd->get(), block, sizeof block) : 0;
  const std::string_view all(block, static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  return std::string(all.substr(0, all.find('\n')));
}

// "#!/bin/sh -e" as "/bin/sh"; "" if the line names none.
std::string interpreter_in(const std::string& line) {
  if (!line.starts_with("#!")) return {};
  const std::size_t begin = line.find_first_not_of(" \t", 2);
  if (begin == std::string::npos) return {};
  return line.substr(begin, line.find_first_of(" \t\r", begin) - begin);
}

std::string name_of_run(const std::string& command) {
  const std::string name = own_variable("SLURM_JOB_NAME");
  return name.empty() ? command.substr(command.rfind('/') + 1) : name;
}

}  // namespace

std::string program_file(const std::string& program, const std::string& path) {
  if (program.find('/') != std::string::npos) return is_file(program) ? program : "";
  for (const std::string_view part : parts_of(path, ':')) {
    std::string file = std::string(part).append("/").append(program);
    if (is_program(file)) return file;
  }
  return {};
}

bool has_windows_lines(const std::string& file) {
  const std::string line = first_line_of_file(file);
  return line.starts_with("#!") && line.ends_with('\r');
}

Error why_not_run(const std::string& file, int code) {
  const std::string name = printable(file);
  if (code == ENOENT && has_windows_lines(file))
    return {code,
            name +
                ": its lines end as Windows writes them, with a carriage return, and so its first "
                "line names an interpreter that does not exist",
            "Correct it with: sed -i 's/\\r$//' " + shell_word(file)};
  if (const auto interpreter = interpreter_in(first_line_of_file(file));
      code == ENOENT && !interpreter.empty())
    return {code,
            name + ": its first line names an interpreter that does not exist here: " +
                printable(interpreter),
            "Correct that line, or name the interpreter before the script."};
  if (code == ENOENT)
    return {code,
            name + ": it is a program for another system: this one lacks the loader that it needs",
            "Build it here, or use the one that this system has."};
  if (code == EACCES) {
    const auto fd = open_at(AT_FDCWD, file, O_PATH);
    if (fd && is_noexec(fd->get()))
      return {code, name + ": its file system lets no program run (noexec)",
              "Name its interpreter before it, or copy it to another file system."};
  }
  return {code, name + ": " + std::strerror(code),
          "Is it a program, and may you execute it? (chmod +x)"};
}

StageOutOrder run_order(const std::string& directory, const std::string& command) {
  StageOutOrder order;
  order.job = number_in("SLURM_JOB_ID").value_or(static_cast<std::uint32_t>(::getpid()));
  order.restart = number_in("SLURM_RESTART_COUNT").value_or(0);
  order.uid = ::getuid();
  order.gid = ::getgid();
  order.user = user_name();
  order.node = node_name();
  order.node_index = number_in("SLURM_NODEID").value_or(0);
  order.directory = directory;
  order.threads = usable_cpus();
  order.job_name = name_of_run(command);
  order.work_dir = submit_place().directory;
  const auto array_job = number_in("SLURM_ARRAY_JOB_ID");
  const auto array_task = number_in("SLURM_ARRAY_TASK_ID");
  order.array_known = true;
  if (array_task) {
    order.array_job = array_job.value_or(order.job);
    order.array_task = *array_task;
  }
  return order;
}

std::vector<SharedItem> share_nothing(const StageRequest& request) {
  std::vector<SharedItem> items;
  const auto add = [&items](std::size_t index) {
    SharedItem item;
    item.item = static_cast<std::uint32_t>(index);
    item.note = "`nodestage run` keeps nothing";
    items.push_back(std::move(item));
  };
  for (std::size_t i = 0; i < request.datasets.size(); ++i) {
    if (request.datasets[i].shared) add(i);
  }
  if (request.venv && request.venv->shared) add(request.datasets.size());
  return items;
}

Status name_sources(StageRequest& request, const NamedOrder& order) {
  Status named = expand_sources(request, strict_pattern_facts(order));
  const auto is_by_task = [](const DatasetItem& item) { return !source_with_index(item).empty(); };
  if (!named && named.error().code == ENODATA &&
      std::any_of(request.datasets.begin(), request.datasets.end(), is_by_task))
    named.error().advice = k_no_task;
  return named;
}

Status check_targets(const StageRequest& request, const NamedOrder& order) {
  const PatternFacts facts = strict_pattern_facts(order);
  for (const OutputItem& item : request.outputs) {
    const auto expanded = expand_pattern(item.target, facts);
    if (expanded) continue;
    return Error{expanded.error().code,
                 "--stage-out, target '" + printable(item.target) + "': " + expanded.error().text(),
                 k_no_task};
  }
  return {};
}

TimedPushes::TimedPushes(const StageRequest& request, const PushDirectory* place, int directory_fd,
                         Say say, Deadline now)
    : place_(place), directory_fd_(directory_fd), say_(std::move(say)), no_earlier_(now) {
  for (std::size_t i = 0; i < request.outputs.size(); ++i) {
    const std::chrono::seconds interval(request.outputs[i].every_s);
    if (interval.count() != 0) timers_.push_back({1ULL << i, interval, now + interval});
  }
}

std::chrono::milliseconds TimedPushes::patience(Deadline now) const {
  std::chrono::milliseconds least = k_no_hurry;
  if (worker_) return least;
  for (const Timer& timer : timers_) {
    const auto left = std::max(timer.due, no_earlier_) - now;
    // The next whole millisecond: not a moment before it is due.
    least = std::min(least, std::chrono::ceil<std::chrono::milliseconds>(left));
  }
  return std::max(least, std::chrono::milliseconds(0));
}

void TimedPushes::step(Deadline now) {
  if (worker_ && !worker_->has_ended()) return;
  if (worker_) note_end();
  const bool is_due = std::any_of(timers_.begin(), timers_.end(),
                                  [now](const Timer& timer) { return timer.due <= now; });
  if (is_due && no_earlier_ <= now) start(now);
}

void TimedPushes::start(Deadline now) {
  auto turn = place_->take_turn();
  if (turn && !*turn) {
    no_earlier_ = now + k_push_look;
    return;
  }
  PushOrder order{place_->order(), false, 0, {}, false};
  for (Timer& timer : timers_) {
    if (timer.due > now) continue;
    order.push_items |= timer.bit;
    timer.due = now + timer.interval;
  }
  if (!turn) return note_failure("\n" + turn.error().text());
  auto worker = place_->start(std::move(**turn), order, directory_fd_);
  if (!worker) return note_failure("\n" + worker.error().text());
  worker_.emplace(std::move(*worker));
}

// A file that was being written at that moment is no failure: it is delivered the next time.
void TimedPushes::note_end() {
  const auto status = end_of_worker(*worker_, WorkerTask::push);
  worker_.reset();
  if (!status) return note_failure("\n" + status.error().text());
  if (status->phase == WorkerPhase::done) {
    has_failed_ = false;
    return;
  }
  std::string lines;
  for (const std::string& line : push_lines(*status)) lines += "\n" + line;
  note_failure(lines);
}

void TimedPushes::note_failure(const std::string& lines) {
  if (!std::exchange(has_failed_, true))
    say_("results could not be delivered while the command runs; it is tried again:" + lines);
}

}  // namespace nodestage

#include "cli/slurm/slurm_job.hpp"

#include <pwd.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include "cli/process/programs.hpp"
#include "common/os/child.hpp"
#include "common/os/mounts.hpp"
#include "common/text/human.hpp"
#include "common/text/parsing.hpp"

namespace nodestage {
namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::string_view part = take_field(text, separator);
    if (!part.empty() || separator != '\n') parts.push_back(part);
  }
  return parts;
}

bool read_number(std::string_view text, std::uint32_t& number) {
  const auto read = parse_number<std::uint32_t>(text);
  if (read) number = *read;
  return read.has_value();
}

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

Error program_fault(const ProgramEnd& end, const std::string& program) {
  if (end.is_not_run()) return {ENOEXEC, "Slurm's " + program + " cannot be run on this host"};
  if (end.late) {
    return {ETIMEDOUT,
            "Slurm did not answer within " + std::to_string(k_program_limit.count()) + " s"};
  }
  const std::string why = end.errors.substr(0, end.errors.find('\n'));
  return {EIO, program + " failed: " + shortened(printable(why), 200)};
}

ProgramEnd ask_for(const std::string& wanted, JobList list) {
  if (list == JobList::squeue)
    return run_program({{"squeue", "--noheader", "--states=all", "--jobs=" + wanted,
                         std::string("--format=") + k_squeue_format},
                        {},
                        {}});
  return run_program({{"sacct", "--noheader", "--parsable2", "--allocations", "--jobs=" + wanted,
                       std::string("--format=") + k_sacct_format},
                      {},
                      {}});
}

// Without accounting, or of a job that it does not know: ENOENT.
Result<SlurmJob> find_accounted_job(const std::string& wanted) {
  const ProgramEnd end = ask_for(wanted, JobList::sacct);
  return read_accounted_job(wanted, end.code == 0 && !end.late ? end.output : "");
}

using Fields = std::vector<std::string_view>;

std::optional<SlurmJob> job_in_squeue(const Fields& fields) {
  SlurmJob job;
  if (fields.size() < 6 || !read_number(fields[0], job.id) || !read_number(fields[4], job.uid))
    return {};
  job.state = fields[3];
  job.nodes = fields[5];
  if (fields.size() > 6) job.reason = fields[6];
  if (fields.size() > 7) read_number(fields[7], job.node_count);
  return job;
}

std::optional<SlurmJob> job_in_sacct(const Fields& fields) {
  SlurmJob job;
  if (fields.size() < 4 || !read_number(fields[0], job.id) || !read_number(fields[2], job.uid))
    return {};
  job.state = fields[1].substr(0, fields[1].find(' '));                      // "CANCELLED by 1001"
  if (fields[3].find(' ') == std::string_view::npos) job.nodes = fields[3];  // "None assigned"
  if (fields.size() > 5) read_number(fields[5], job.node_count);
  return job;
}

}  // namespace

bool is_completing(const SlurmJob& job) {
  return is_one_of(job.state, {"COMPLETING", "STAGE_OUT"});
}

JobTime time_of(const SlurmJob& job) {
  if (job.nodes.empty() &&
      is_one_of(job.state, {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD",
                            "RESV_DEL_HOLD", "SPECIAL_EXIT"}))
    return JobTime::pending;
  const bool runs = is_one_of(
      job.state, {"RUNNING", "CONFIGURING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING"});
  return runs ? JobTime::running : JobTime::over;
}

bool is_job_id(std::string_view text) {
  const std::size_t end = text.find_first_of("_+");
  std::uint32_t job = 0;
  return read_number(text.substr(0, end), job) && job != 0 &&
         (end == std::string_view::npos || parse_number<std::uint32_t>(text.substr(end + 1)));
}

std::optional<JobId> parse_job_id(const std::string& text) {
  JobId id;
  const std::size_t dot = text.find('.');
  if (!read_number(std::string_view(text).substr(0, dot), id.job)) return {};
  if (dot != std::string::npos && !read_number(std::string_view(text).substr(dot + 1), id.restart))
    return {};
  return id;
}

std::string to_text(const JobId& id) {
  return std::to_string(id.job) +
         (id.restart == k_no_number ? "" : "." + std::to_string(id.restart));
}

// An array's id gives its tasks, each with its own id; that of a heterogeneous job, or of one of
// its components, gives all its components.
Result<SlurmJob> read_job(const std::string& wanted, std::string_view output) {
  std::vector<SlurmJob> found;
  std::optional<SlurmJob> whole;
  bool is_array = false;
  for (const std::string_view line : split(output, '\n')) {
    const auto fields = split(line, '|');
    auto job = job_in_squeue(fields);
    if (!job)
      return Error{EIO, "squeue's answer cannot be read: " + shortened(printable(line), 200)};
    is_array = is_array || fields[2] != "N/A";
    if (fields[0] == wanted || fields[1] == wanted) whole = job;
    found.push_back(std::move(*job));
  }
  if (found.empty()) return Error{ENOENT, "Slurm knows no job " + wanted};
  if (found.size() == 1) return found.front();
  if (is_array)
    return Error{EINVAL, "job " + wanted + " is an array of " + human_count(found.size()) +
                             " tasks, or more"};
  if (!whole) return Error{EINVAL, "job " + wanted + " has several components"};
  return *whole;
}

Result<SlurmJob> read_accounted_job(const std::string& wanted, std::string_view output) {
  std::vector<SlurmJob> found;
  for (const std::string_view line : split(output, '\n')) {
    const auto fields = split(line, '|');
    auto job = job_in_sacct(fields);
    if (!job) continue;
    if (fields.size() > 4 && (fields[4] == wanted || fields[4] == wanted + "+0")) return *job;
    found.push_back(std::move(*job));
  }
  if (found.size() == 1) return found.front();
  if (found.empty()) return Error{ENOENT, "Slurm knows no job " + wanted};
  return Error{EINVAL, "job " + wanted + " has several tasks or components"};
}

Result<SlurmJob> find_job(const std::string& wanted) {
  const ProgramEnd end = ask_for(wanted, JobList::squeue);
  const bool is_answered = end.code == 0 && !end.late;
  if (!is_answered && end.errors.find("Invalid job id") == std::string::npos)
    return program_fault(end, "squeue");
  auto job = read_job(wanted, is_answered ? end.output : "");
  return job || job.error().code != ENOENT ? job : find_accounted_job(wanted);
}

std::optional<SlurmJob> read_placed_job(std::uint32_t number, std::string_view output,
                                        JobList list) {
  std::optional<SlurmJob> found;
  for (const std::string_view line : split(output, '\n')) {
    const auto fields = split(line, '|');
    auto job = list == JobList::squeue ? job_in_squeue(fields) : job_in_sacct(fields);
    if (job && job->id == number && !job->nodes.empty()) found = std::move(job);
  }
  return found;
}

std::optional<SlurmJob> find_placed_job(std::uint32_t number) {
  const std::string wanted = std::to_string(number);
  for (const JobList list : {JobList::squeue, JobList::sacct}) {
    if (auto job = read_placed_job(number, ask_for(wanted, list).output, list)) return job;
  }
  return {};
}

Result<JobId> find_job_id(const std::string& text) {
  if (const auto id = parse_job_id(text)) return *id;
  const std::size_t dot = std::min(text.find('.'), text.size());
  const std::string name = text.substr(0, dot);
  const bool is_name = name.find_first_of("_+") != std::string::npos && is_job_id(name);
  if (!is_name || !parse_job_id("1" + text.substr(dot)))
    return Error{ENOMSG, "'" + text + "' is not a job id"};
  TRY_ASSIGN(const SlurmJob job, find_job(name));
  return *parse_job_id(std::to_string(job.id) + text.substr(dot));
}

Result<std::vector<std::string>> expand_nodes(const std::string& nodes) {
  const ProgramEnd end = run_program({{"scontrol", "show", "hostnames", nodes}, {}, {}});
  if (end.code != 0 || end.late) return program_fault(end, "scontrol");
  const auto names = split(end.output, '\n');
  return std::vector<std::string>(names.begin(), names.end());
}

SlurmOutput find_output(const std::string& wanted) {
  const auto ask = [](const std::string& job) {
    return read_output(run_program({{"scontrol", "show", "job", job}, {}, {}}).output);
  };
  SlurmOutput found = ask(wanted);
  if (found.het_job != k_no_number) found.path = ask(std::to_string(found.het_job) + "+0").path;
  return found;
}

SlurmOutput read_output(std::string_view output) {
  static constexpr std::string_view k_path = "   StdOut=";
  static constexpr std::string_view k_work_dir = "   WorkDir=";
  SlurmOutput found;
  const auto lines = split(output, '\n');
  if (!lines.empty()) {
    std::string_view first = lines.front();
    const auto number_behind = [&first](std::string_view name) {
      first.remove_prefix(std::min(first.find(name), first.size()));
      first.remove_prefix(std::min(name.size(), first.size()));
      return take_number<std::uint32_t>(first).value_or(0);
    };
    const std::uint32_t het_job = number_behind(" HetJobId=");
    if (number_behind(" HetJobOffset=") != 0) found.het_job = het_job;
  }
  const bool is_batch = output.find(" BatchFlag=0") == std::string_view::npos;
  for (const std::string_view line : lines) {
    if (line.starts_with(k_work_dir) && found.work_dir.empty())
      found.work_dir = line.substr(k_work_dir.size());
    if (line.starts_with(k_path) && found.path.empty() && is_batch)
      found.path = line.substr(k_path.size());
  }
  return found;
}

std::string node_name() {
  if (std::string name = own_variable("SLURMD_NODENAME"); !name.empty()) return name;
  char name[HOST_NAME_MAX + 1] = {};
  if (::gethostname(name, sizeof name - 1) != 0) return "this node";
  const std::string text = name;
  return text.substr(0, text.find('.'));
}

std::optional<std::uint32_t> number_in(const char* variable) {
  return parse_number<std::uint32_t>(own_variable(variable));
}

unsigned usable_cpus() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (::sched_getaffinity(0, sizeof cpus, &cpus) == 0)
    return static_cast<unsigned>(std::max(CPU_COUNT(&cpus), 1));
  return static_cast<unsigned>(std::max(::sysconf(_SC_NPROCESSORS_ONLN), 1L));
}

std::string user_name() {
  const passwd* entry = ::getpwuid(::getuid());
  return entry == nullptr ? std::to_string(::getuid()) : entry->pw_name;
}

}  // namespace nodestage

#include "daemon/root/slurm/credit.hpp"

#include <algorithm>
#include <vector>

#include "common/text/parsing.hpp"

namespace nodestage {
namespace {

constexpr std::uint64_t k_day_minutes = 24 * 60;

std::optional<std::uint32_t> number_of(std::string_view text) {
  return parse_number<std::uint32_t>(text);
}

// Returns the parts of "02:03:04"; empty when one is not a number.
std::vector<std::uint64_t> parts_of_time(std::string_view text) {
  std::vector<std::uint64_t> parts;
  for (;;) {
    const std::size_t colon = text.find(':');
    const auto part = number_of(text.substr(0, colon));
    if (!part) return {};
    parts.push_back(*part);
    if (colon == std::string_view::npos) return parts;
    text.remove_prefix(colon + 1);
  }
}

std::optional<std::uint32_t> bounded(std::uint64_t minutes) {
  if (minutes >= k_unlimited) return {};
  return static_cast<std::uint32_t>(minutes);
}

std::vector<std::string_view> lines_of(std::string_view output) {
  std::vector<std::string_view> lines;
  while (!output.empty()) {
    const std::string_view line = output.substr(0, output.find('\n'));
    if (!line.empty()) lines.push_back(line);
    output.remove_prefix(std::min(line.size() + 1, output.size()));
  }
  return lines;
}

// Returns the value of `name` (" Name=") if the line contains it exactly once.
std::string_view only_field(std::string_view line, std::string_view name) {
  const std::size_t at = line.find(name);
  if (at == std::string_view::npos || line.find(name, at + 1) != std::string_view::npos) return {};
  line.remove_prefix(at + name.size());
  return line.substr(0, line.find(' '));
}

JobLimit no_limit(JobLimit::Answer answer, std::string why) {
  JobLimit limit;
  limit.answer = answer;
  limit.why = std::move(why);
  return limit;
}

JobLimit never(std::string why) { return no_limit(JobLimit::Answer::never, std::move(why)); }
JobLimit later(std::string why) { return no_limit(JobLimit::Answer::later, std::move(why)); }

// Slurm takes the id of an array's first record for the whole array.
std::string own_id(const JobKey& run, std::string_view ids) {
  const std::string_view array = only_field(ids, " ArrayJobId=");
  const std::string_view task = only_field(ids, " ArrayTaskId=");
  if (!number_of(array) || !number_of(task)) return std::to_string(run.job);
  return std::string(array).append("_").append(task);
}

JobLimit read_line(const JobKey& run, std::string_view line) {
  const std::string_view state = only_field(line, " JobState=");
  const auto restarts = number_of(only_field(line, " Restarts="));
  const auto minutes = parse_minutes(only_field(line, " TimeLimit="));
  const std::string_view partition = only_field(line, " Partition=");
  if (state.empty() || !restarts || partition.empty() || !minutes)
    return never("Slurm's answer about the job is not clear");
  if (*restarts != run.restart) return never("this run of the job is over");
  if (state == "CONFIGURING" || state == "SUSPENDED")
    return later("the job is " + std::string(state));
  if (state != "RUNNING") return never("the job does not run");
  if (*minutes == k_unlimited) return never("the job has no time limit");
  if (partition.find(',') != std::string_view::npos)
    return never("Slurm reports several partitions for the job");
  JobLimit limit;
  limit.answer = JobLimit::Answer::known;
  limit.partition = partition;
  limit.minutes = *minutes;
  return limit;
}

}  // namespace

std::optional<std::uint32_t> parse_minutes(std::string_view text) {
  if (text == "UNLIMITED" || text == "INFINITE") return k_unlimited;
  const std::size_t dash = text.find('-');
  if (dash != std::string_view::npos) {
    const auto days = number_of(text.substr(0, dash));
    auto parts = parts_of_time(text.substr(dash + 1));  // hours, minutes, seconds
    if (!days || parts.empty() || parts.size() > 3) return {};
    parts.resize(3);
    return bounded(*days * k_day_minutes + parts[0] * 60 + parts[1]);
  }
  const auto parts = parts_of_time(text);
  if (parts.size() == 1 || parts.size() == 2) return bounded(parts[0]);
  if (parts.size() == 3) return bounded(parts[0] * 60 + parts[1]);
  return {};
}

std::uint32_t credit_minutes(std::uint64_t seconds, const Config::Credit& settings) {
  if (seconds < settings.least_s) return 0;
  const std::uint64_t minutes = seconds / 60 + (seconds % 60 != 0 ? 1 : 0);
  return static_cast<std::uint32_t>(std::min(minutes, settings.max_minutes));
}

JobLimit read_job_limit(const JobKey& run, std::string_view output) {
  const std::vector<std::string_view> lines = lines_of(output);
  const std::string begin = "JobId=" + std::to_string(run.job) + " ";
  const auto about = [&](std::string_view line) { return line.starts_with(begin); };
  const auto found = std::find_if(lines.begin(), lines.end(), about);
  if (found == lines.end()) {
    const bool unknown = lines.size() == 1 && output.find("JobId=") == std::string_view::npos &&
                         output.find("Invalid job id specified") != std::string_view::npos;
    return unknown ? never("Slurm does not know the job") : later("Slurm gave no clear answer");
  }
  // The text before the job's name is Slurm's own.
  const std::string_view ids = found->substr(0, found->find(" JobName="));
  if (ids.find(" HetJobId=") != std::string_view::npos)
    return never("it is a component of a heterogeneous job");
  const std::string id = own_id(run, ids);
  if (lines.size() > 1) {
    const bool clear = std::count_if(lines.begin(), lines.end(), about) == 1;
    if (!clear) return never("Slurm's answer about the job is not clear");
    JobLimit limit;
    limit.answer = JobLimit::Answer::ask_for;
    limit.id = id;
    return limit;
  }
  JobLimit limit = read_line(run, *found);
  limit.id = id;
  return limit;
}

std::optional<std::uint32_t> read_max_time(const std::string& partition, std::string_view output) {
  const std::vector<std::string_view> lines = lines_of(output);
  if (lines.size() != 1 || !lines[0].starts_with("PartitionName=" + partition + " ")) return {};
  return parse_minutes(only_field(lines[0], " MaxTime="));
}

std::optional<std::uint32_t> raised_limit(std::uint32_t limit, std::uint32_t credit,
                                          std::uint32_t max_time) {
  const std::uint64_t wanted = std::uint64_t{limit} + credit;
  const std::uint64_t raised = std::min<std::uint64_t>(wanted, max_time);
  if (raised <= limit || raised >= k_unlimited) return {};
  return static_cast<std::uint32_t>(raised);
}

}  // namespace nodestage

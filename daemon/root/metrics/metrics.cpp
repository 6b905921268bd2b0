#include "daemon/root/metrics/metrics.hpp"

#include <optional>

#include "common/build_info.hpp"

namespace nodestage {
namespace {

// The labels, in the order of their enums.
constexpr const char* k_activity[k_activities] = {"stage", "stage_out", "push"};
constexpr const char* k_phase[k_phases] = {"directory", "queued",  "staging",
                                           "barrier",   "outcome", "stage_out"};
constexpr const char* k_cause[k_failure_causes] = {"data",    "space",  "time_limit", "memory",
                                                   "process", "start",  "directory",  "other_node",
                                                   "refused", "journal"};

template <typename Enum>
constexpr std::size_t index(Enum value) {
  return static_cast<std::size_t>(value);
}
static_assert(index(Activity::push) + 1 == k_activities);
static_assert(index(Phase::stage_out) + 1 == k_phases);
static_assert(index(FailureCause::journal) + 1 == k_failure_causes);

std::uint64_t beyond(std::uint64_t now, std::uint64_t& counted) {
  const std::uint64_t more = now > counted ? now - counted : 0;
  counted += more;
  return more;
}

std::string seconds(std::uint64_t milliseconds) {
  const std::string rest = std::to_string(milliseconds % 1000);
  return std::to_string(milliseconds / 1000) + "." + std::string(3 - rest.size(), '0') + rest;
}

std::optional<Phase> phase_of(JobState state) {
  switch (state) {
    case JobState::waiting_for_directory:
      return Phase::directory;
    case JobState::queued:
      return Phase::queued;
    case JobState::staging:
      return Phase::staging;
    case JobState::awaiting_outcome:
      return Phase::outcome;
    case JobState::staging_out:
      return Phase::stage_out;
    case JobState::ready:
    case JobState::failed:
    case JobState::stopping:
    case JobState::held:
    case JobState::gone:
      break;
  }
  return {};
}

// One text: families of samples.
class Families {
 public:
  explicit Families(std::string& text) : text_(text) {}

  void begin(const std::string& name, const char* type, const char* help) {
    name_ = "nodestage_" + name;
    text_ += "# HELP " + name_ + " " + help + "\n# TYPE " + name_ + " " + type + "\n";
  }
  void add(const std::string& labels, const std::string& value, const char* suffix = "") {
    text_ += name_ + suffix + (labels.empty() ? "" : "{" + labels + "}") + " " + value + "\n";
  }
  void gauge(const std::string& name, const char* help, std::uint64_t value) {
    begin(name, "gauge", help);
    add("", std::to_string(value));
  }
  void counter(const std::string& name, const char* help, const std::string& value) {
    begin(name, "counter", help);
    add("", value);
  }

 private:
  std::string& text_;
  std::string name_;
};

std::string label(const char* name, const std::string& value) {
  return std::string(name) + "=\"" + value + "\"";
}

void add_work(Families& families, const Counters& counters) {
  const auto family = [&](const char* name, const char* help, std::uint64_t Work::*member) {
    families.begin(name, "counter", help);
    for (std::size_t i = 0; i < k_activities; ++i)
      families.add(label("activity", k_activity[i]), std::to_string(counters.work[i].*member));
  };
  family("read_bytes_total", "Bytes read from sources.", &Work::bytes_read);
  family("written_bytes_total", "Bytes written to destinations.", &Work::bytes_written);
  family("files_total", "Files, links and other entries made, without directories.", &Work::files);
}

void add_relay(Families& families, const Work& work) {
  families.begin("relay_bytes_total", "counter",
                 "Bytes of sources that the nodes of a job pass on to each other, by where they "
                 "came from.");
  families.add(label("from", "storage"), std::to_string(work.bytes_from_storage));
  families.add(label("from", "nodes"), std::to_string(work.bytes_from_nodes));
}

void add_times(Families& families, const Counters& counters) {
  families.begin("phase_seconds", "summary", "Time that jobs spent in each phase that is over.");
  for (std::size_t i = 0; i < k_phases; ++i) {
    const std::string phase = label("phase", k_phase[i]);
    families.add(phase, seconds(counters.spent[i].milliseconds), "_sum");
    families.add(phase, std::to_string(counters.spent[i].times), "_count");
  }
}

void add_failures(Families& families, const Counters& counters) {
  families.begin("failures_total", "counter",
                 "Stagings, stage-outs and pushes that failed, by cause.");
  for (std::size_t i = 0; i < k_activities; ++i) {
    for (std::size_t cause = 0; cause < k_failure_causes; ++cause) {
      families.add(label("activity", k_activity[i]) + "," + label("cause", k_cause[cause]),
                   std::to_string(counters.failures[i][cause]));
    }
  }
}

void add_cache(Families& families, const Counters::Cache& cache) {
  families.begin("shared_items_total", "counter",
                 "Shared items of jobs, by what was done for them.");
  families.add(label("result", "hit"), std::to_string(cache.hits));
  families.add(label("result", "miss"), std::to_string(cache.misses));
  families.add(label("result", "refused"), std::to_string(cache.refused));
  families.counter("shared_bytes_not_read_total",
                   "Bytes of the sources of shared items that were there already.",
                   std::to_string(cache.bytes_not_read));
  families.counter("shared_hits_of_others_total",
                   "Shared items that were there already and that another user's job had staged.",
                   std::to_string(cache.hits_of_others));
  families.counter("cache_evictions_total", "Entries of the cache that were removed.",
                   std::to_string(cache.evictions));
}

void add_pushes(Families& families, const Counters::Pushes& pushes) {
  constexpr const char* k_result[] = {"done", "unsettled", "failed"};
  families.begin("pushes_total", "counter", "Deliveries while a job ran, by how they ended.");
  static_assert(std::tuple_size_v<decltype(pushes.results)> == std::size(k_result));
  for (std::size_t i = 0; i < std::size(k_result); ++i)
    families.add(label("result", k_result[i]), std::to_string(pushes.results[i]));
  families.counter("push_seconds_total", "Time that deliveries while a job ran have taken.",
                   seconds(pushes.milliseconds));
}

void add_held(Families& families, const Metrics& metrics) {
  constexpr const char* k_waits_for[] = {"user", "administrator"};
  const auto family = [&](const char* name, const char* help, const auto& values) {
    families.begin(name, "gauge", help);
    static_assert(std::tuple_size_v<std::decay_t<decltype(values)>> == std::size(k_waits_for));
    for (std::size_t i = 0; i < std::size(k_waits_for); ++i)
      families.add(label("waits_for", k_waits_for[i]), std::to_string(values[i]));
  };
  family("held_results",
         "Jobs whose results could not be delivered and are kept, by who can remove the cause.",
         metrics.held_results);
  family("held_bytes", "Size on disk of held results, by who can remove the cause.",
         metrics.held_bytes);
  family("held_inodes",
         "Files, directories and links of held results, by who can remove the cause.",
         metrics.held_inodes);
  families.gauge("held_results_at_risk",
                 "Jobs whose results are kept on this node although Slurm can switch it off.",
                 metrics.held_at_risk);
}

}  // namespace

Work work_of(const WorkerStatus& status) {
  Work work;
  for (const ItemRecord& item : status.items) {
    work.bytes_read += item.bytes_read;
    work.bytes_written += item.bytes_written;
    work.files += item.files;
    work.bytes_from_storage += item.bytes_from_storage;
    work.bytes_from_nodes += item.bytes_from_nodes;
  }
  return work;
}

FailureCause cause_of(const WorkerEnd& end, const WorkerStatus& status) {
  if (status.phase == WorkerPhase::failed) return FailureCause::data;
  switch (end.kind) {
    case WorkerEnd::Kind::not_started:
    case WorkerEnd::Kind::step_gone:
      return FailureCause::start;
    case WorkerEnd::Kind::over_limit:
      return FailureCause::time_limit;
    case WorkerEnd::Kind::no_memory:
    case WorkerEnd::Kind::job_memory:
      return FailureCause::memory;
    case WorkerEnd::Kind::done:
    case WorkerEnd::Kind::ended:
    case WorkerEnd::Kind::killed:
    case WorkerEnd::Kind::stuck:
      break;
  }
  return FailureCause::process;
}

void Counters::add_work(Activity activity, const Work& now, Work& counted) {
  Work& total = work[index(activity)];
  total.bytes_read += beyond(now.bytes_read, counted.bytes_read);
  total.bytes_written += beyond(now.bytes_written, counted.bytes_written);
  total.files += beyond(now.files, counted.files);
  total.bytes_from_storage += beyond(now.bytes_from_storage, counted.bytes_from_storage);
  total.bytes_from_nodes += beyond(now.bytes_from_nodes, counted.bytes_from_nodes);
}

void Counters::add_time(Phase phase, std::chrono::steady_clock::duration time) {
  Spent& total = spent[index(phase)];
  ++total.times;
  total.milliseconds += static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(time).count());
}

void Counters::add_time(JobState state, std::chrono::steady_clock::duration time) {
  if (const auto phase = phase_of(state)) add_time(*phase, time);
}

void Counters::add_push(Pushed result, std::uint64_t milliseconds) {
  ++pushes.results[index(result)];
  pushes.milliseconds += milliseconds;
}

void Counters::add_failure(Activity activity, FailureCause cause) {
  ++failures[index(activity)][index(cause)];
}

MetricsText metrics_text(const Metrics& metrics) {
  MetricsText text;
  Families own(text.own);
  own.begin("build_info", "gauge", "1, with the version of the daemon that wrote this.");
  own.add(label("version", k_version), "1");
  own.begin("jobs", "gauge", "Jobs that the daemon knows, by state.");
  for (std::size_t i = 0; i < index(JobState::gone); ++i)
    own.add(label("state", k_job_state_rows.at(i).metric), std::to_string(metrics.jobs[i]));
  add_work(own, metrics.counters);
  add_relay(own, metrics.counters.work[index(Activity::stage)]);
  add_times(own, metrics.counters);
  add_failures(own, metrics.counters);
  add_held(own, metrics);
  own.gauge("trash_trees", "Trees of ended jobs that are still to be removed.",
            metrics.trash_trees);
  own.gauge("stuck_trees", "Trees of those that could not be removed so far.", metrics.stuck_trees);

  add_cache(own, metrics.counters.cache);
  add_pushes(own, metrics.counters.pushes);
  own.gauge("cache_entries", "Shared items that are kept for further jobs.", metrics.cache_entries);
  own.gauge("cache_bytes", "Size of what is kept for further jobs, as workers reported it.",
            metrics.cache_bytes);

  Families disk(text.disk);
  disk.gauge("tmpdir_size_bytes", "Size of the file system of the job directories.",
             metrics.size_bytes);
  disk.gauge("tmpdir_free_bytes", "Bytes free on that file system.", metrics.free_bytes);
  disk.gauge("tmpdir_free_inodes", "Inodes free on that file system.", metrics.free_inodes);
  disk.gauge("tmpdir_promised_bytes", "Bytes that jobs were promised and have not yet written.",
             metrics.promised_bytes);
  return text;
}

}  // namespace nodestage

#include "cli/plan/plan.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/base/conversation.hpp"
#include "cli/slurm/slurm_job.hpp"
#include "common/build_info.hpp"
#include "common/os/file.hpp"
#include "common/os/mounts.hpp"
#include "common/request/source_names.hpp"
#include "common/request/submission.hpp"
#include "common/settings/config.hpp"
#include "common/text/human.hpp"
#include "common/wire/daemon_about.hpp"
#include "daemon/worker/share/identify.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_most_about = 64 * 1024;
constexpr const char* k_advice =
    "Ask for a node with more local disk (--tmp=SIZE), stage less (include=, exclude=), or use the "
    "data where it is.";

// PlanNode: the compute node that `nodestage plan` runs on: what staging would find there now.
struct PlanNode {
  std::string name;
  Amount free;                         // of the file system of the job directories
  std::uint64_t leave_free_bytes = 0;  // of these, what must stay free
  std::uint64_t least_interval_s = 0;  // a shorter `every` is raised to it; 0: not known
};

// What this process may use of the node's memory, and how much of a job's memory can be data.
struct MemoryHere {
  std::uint64_t bytes = 0;
  std::uint64_t share_percent = 0;
};

// The daemon's settings; the default ones where they cannot be read.
Config settings_in(const std::string& path) {
  const auto loaded = load_config(path);
  return loaded ? *loaded : Config();
}

// Reads the file `about` beside the daemon's socket. Returns nothing on a machine without a daemon.
std::optional<PlanNode> this_plan_node(const std::string& socket) {
  const std::string path = socket.substr(0, socket.rfind('/') + 1) + "about";
  const auto text = read_file(AT_FDCWD, path, k_most_about);
  const DaemonAbout about = text ? decode_about(*text) : DaemonAbout();
  const auto disk = open_at(AT_FDCWD, about.tmpdir_root, O_PATH | O_DIRECTORY);
  if (about.tmpdir_root.empty() || !disk) return {};
  return PlanNode{node_name(), free_on(disk->get()), about.leave_free_bytes,
                  about.least_interval_s};
}

// Returns why `need` does not fit on the node now, and what to do, in two lines; "" if it does.
// What others are promised is not known here.
std::string why_not_on(const PlanNode& node, const Amount& need) {
  const Amount available = node.free - Amount{node.leave_free_bytes, 0};
  if (fits(need, available)) return {};
  const auto [free, kept] = human_bytes_apart(node.free.bytes, node.leave_free_bytes);
  const std::string left =
      need.bytes > available.bytes
          ? free + " free" +
                (node.leave_free_bytes == 0 ? "" : ", of which " + kept + " must stay free")
          : human_count(node.free.inodes) + " inodes free";
  return Error{0, "the data do not fit on this node now: " + node.name + " has " + left, k_advice}
      .text();
}

// What the daemon orders, as far as keys depend on it.
IdentifyOrder order_of(const Config& config) {
  IdentifyOrder order;
  set_rules(order, config);
  order.uid = ::getuid();
  order.gid = ::getgid();
  if (config.cache.enabled) order.cache = tmpdir_root(config);
  return order;
}

// A job waits for what was just changed, and the node cannot have it yet.
void set_kept(const SourceIdentity& identity, const std::vector<CacheRow>& rows, PlanItem& item) {
  if (identity.settles_ms != 0) {
    item.kept = KeptHere::miss;
    return;
  }
  if (identity.key.empty()) {
    item.kept = KeptHere::refused;
    item.not_kept = identity.why_not;
    return;
  }
  const std::string name = std::to_string(::getuid()) + "." + identity.key;
  const auto row = std::find_if(rows.begin(), rows.end(),
                                [&name](const CacheRow& one) { return one.name == name; });
  item.kept = row == rows.end() ? KeptHere::miss : KeptHere::hit;
  if (row == rows.end()) return;
  item.kept_by = row->job;
  item.kept_by_name = job_name(row->job, row->array_job, row->array_task, row->het_job);
}

}  // namespace

void find_kept(const std::string& request, const std::string& socket, const std::string& config,
               std::vector<PlanItem>& items) {
  const bool is_any =
      std::any_of(items.begin(), items.end(), [](const PlanItem& item) { return item.is_shared; });
  // As the daemon of a job's node gets it.
  const auto decoded = is_any ? decode_request(request) : Result(StageRequest());
  if (!is_any || !decoded) return;
  const auto rows = ask_for_rows<CacheRow>(socket, CacheQuery{});
  if (!rows) return;
  const auto identities = identities_of(order_of(settings_in(config)), *decoded);
  for (std::size_t i = 0; i < std::min(identities.size(), items.size()); ++i) {
    if (items[i].is_shared && items[i].has_source) set_kept(identities[i], *rows, items[i]);
  }
}

std::string kept_text(const PlanItem& item) {
  switch (item.kept) {
    case KeptHere::hit:
      return "already on this node (staged by " + item.kept_by_name + ")";
    case KeptHere::miss:
      return "not on this node yet; it is kept there for your further jobs while there is room";
    case KeptHere::refused:
      return "would not be kept: " + item.not_kept;
    case KeptHere::unknown:
      break;
  }
  return "unknown here, as no nodestaged answers on this machine; each node keeps it for your "
         "further jobs while there is room";
}

namespace {

std::string surely(const Known& known, const std::string& text) {
  switch (known.surety) {
    case Surety::unknown:
      return "not known";
    case Surety::guessed:
      return "about " + text;
    case Surety::at_least:
      return "more than " + text;
    case Surety::exact:
      break;
  }
  return text;
}

void print_row(const char* key, const std::string& text) {
  std::printf("  %-8s %s\n", key, printable(text, Newlines::join).c_str());
}

std::string what_text(const PlanItem& item) {
  std::string text = item.what;
  if (item.source_bytes.surety != Surety::unknown && item.what != "directory")
    text += ", " + human_bytes(item.source_bytes.value);
  if (item.bytes.surety == Surety::unknown) return text;
  const std::string bytes = surely(item.bytes, human_bytes(item.bytes.value));
  const bool is_same = item.bytes.value == item.source_bytes.value && item.what != "directory";
  return text + (is_same ? "" : ", " + bytes + " of data") + ", " +
         surely(item.files, counted(item.files.value, "file", "files"));
}

std::string space_text(const Amount& need) {
  std::string text = human_bytes(need.bytes) + " of local disk";
  if (need.inodes > 1) text += ", " + human_count(need.inodes) + " inodes";
  return text;
}

// How much a job must ask for, so that its share is the need.
std::uint64_t job_memory_for(std::uint64_t need, std::uint64_t share_percent) {
  return ((need / share_percent * 100) >> 20) + 1;
}

std::string memory_text(const Amount& need, const MemoryHere& here) {
  const std::uint64_t share = here.bytes / 100 * here.share_percent;
  return human_bytes(need.bytes) + " of the job's memory, which is enough from --mem=" +
         std::to_string(job_memory_for(need.bytes, here.share_percent)) + "M on (" +
         std::to_string(here.share_percent) + "% of it can be such data); " +
         (need.bytes <= share ? "it fits" : "it does not fit") + " into the " +
         human_bytes(here.bytes) +
         " that this shell may use now; without in=memory it would be as much of local disk";
}

std::string walk_text(const PlanItem& item) {
  return counted(item.walk_entries, "entry", "entries") + " looked at in " +
         human_duration(static_cast<std::uint64_t>(std::llround(item.walk_seconds * 1000))) +
         " on this host now: each job does that, and where the node has it no file is read";
}

std::string tasks_text(const PlanItem& item) {
  std::string text = human_count(item.tasks) + " sources";
  if (item.tasks_looked < item.tasks)
    text += ", of which there was time for the first " + human_count(item.tasks_looked);
  if (item.tasks_largest.empty()) return text;
  if (item.tasks_bytes == 0) return text + "; this is for the first, " + item.tasks_largest;
  return text + ", " + human_bytes(item.tasks_bytes) + " in all; this is for the largest, " +
         item.tasks_largest;
}

void print(const PlanItem& item, const MemoryHere& here) {
  const bool is_output = item.option == "stage-out";
  const std::string place = "$SLURM_TMPDIR/";
  std::string line = printable((is_output ? place : "") + item.source);
  // Without a destination in the request, and without a source that gives one, there is none.
  if (!item.destination.empty())
    line += " -> " + printable((is_output ? "" : place) + item.destination);
  std::printf("%s\n", line.c_str());
  if (!item.what.empty()) print_row("what", what_text(item));
  if (item.tasks > 0) print_row("tasks", tasks_text(item));
  if (!item.newest_text.empty()) print_row("choice", item.newest_text + ", as of now");
  if (!item.reading.empty()) print_row("reading", item.reading);
  if (item.need.bytes > 0 && item.is_in_memory)
    print_row("memory", memory_text(item.need, here));
  else if (item.need.bytes > 0)
    print_row("space", space_text(item.need));
  if (!item.time.empty()) print_row("time", item.time);
  if (item.is_shared && item.has_source && item.fault.empty()) print_row("shared", kept_text(item));
  if (item.walk_seconds >= 0 && item.fault.empty()) print_row("walk", walk_text(item));
  for (const std::string& advice : item.advice) print_row("advice", advice);
  if (!item.fault.empty()) print_row("FAULT", item.fault);
}

const char* name_of(Surety surety) {
  static constexpr const char* k_names[] = {"unknown", "estimate", "at_least", "exact"};
  return k_names[static_cast<int>(surety)];
}

const char* name_of(KeptHere kept) {
  static constexpr const char* k_names[] = {"unknown", "hit", "miss", "not_kept"};
  return k_names[static_cast<int>(kept)];
}

void put(nlohmann::json& json, const char* key, const Known& known) {
  if (known.surety == Surety::unknown) return;
  json[key] = known.value;
  json[std::string(key) + "_surety"] = name_of(known.surety);
}

nlohmann::json to_json(const PlanItem& item) {
  nlohmann::json json{{"option", item.option},
                      {"source", printable(item.source)},
                      {"destination", printable(item.destination)},
                      {"what", item.what},
                      {"sources", item.sources},
                      {"advice", nlohmann::json::array()}};
  if (item.tasks > 0) {
    json["tasks"] = item.tasks;
    json["tasks_looked"] = item.tasks_looked;
    json["tasks_missing"] = item.tasks_missing;
    json["tasks_bytes"] = item.tasks_bytes;
    if (item.has_source) json["tasks_largest"] = printable(item.tasks_largest);
  }
  put(json, "source_bytes", item.source_bytes);
  put(json, "bytes", item.bytes);
  put(json, "files", item.files);
  if (!item.newest_text.empty()) {
    json["newest"] = nlohmann::json::array();
    for (const std::string& name : item.newest) json["newest"].push_back(printable(name));
    json["newest_among"] = item.newest_among;
  }
  if (item.every_s != 0) json["every_s"] = item.every_s;
  if (item.need.bytes > 0) json["need_bytes"] = item.need.bytes;
  if (item.need.inodes > 0) json["need_inodes"] = item.need.inodes;
  if (item.is_in_memory) json["in"] = "memory";
  if (!item.reading.empty()) {
    json["reading"] = item.reading;
    json["parallel"] = item.is_parallel;
  }
  if (item.seconds >= 0) json["seconds"] = item.seconds;
  if (!item.time.empty()) json["time"] = item.time;
  if (item.is_shared) {
    json["shared"] = true;
    if (item.fault.empty() && item.has_source) json["shared_here"] = name_of(item.kept);
    if (item.kept == KeptHere::hit) json["staged_by"] = item.kept_by;
    if (item.kept == KeptHere::refused) json["not_kept"] = printable(item.not_kept);
    if (item.walk_seconds >= 0) {
      json["walk_entries"] = item.walk_entries;
      json["walk_seconds"] = item.walk_seconds;
    }
  }
  for (const std::string& advice : item.advice) json["advice"].push_back(printable(advice));
  if (!item.fault.empty()) json["fault"] = printable(item.fault, Newlines::join);
  return json;
}

// Of local disk, or of the job's memory.
Amount sum_of_needs(const std::vector<PlanItem>& items, Storage storage) {
  Amount sum;
  for (const PlanItem& item : items) {
    if (item.is_in_memory == (storage == Storage::memory)) sum = sum + item.need;
  }
  return sum;
}

// Returns why what is not here yet does not fit on this node; "" if it does, or if this is no node.
std::string why_not_here(const std::optional<PlanNode>& node, const std::vector<PlanItem>& items) {
  Amount need;
  for (const PlanItem& item : items) {
    if (item.kept != KeptHere::hit && !item.is_in_memory) need = need + item.need;
  }
  return node ? why_not_on(*node, need) : "";
}

void print_all(const std::vector<PlanItem>& items, const std::string& fault_here,
               const MemoryHere& here) {
  for (const PlanItem& item : items) print(item, here);
  const Amount sum = sum_of_needs(items, Storage::disk);
  const Amount memory = sum_of_needs(items, Storage::memory);
  if (items.size() > 1 && sum.bytes > 0) {
    std::printf("in total on each node: %s\n", space_text(sum).c_str());
  }
  if (items.size() > 1 && memory.bytes > 0) {
    std::printf("in total on each node: %s\n", memory_text(memory, here).c_str());
  }
  if (!fault_here.empty()) print_row("FAULT", fault_here);
}

void print_json(const std::vector<PlanItem>& items, const std::optional<PlanNode>& node,
                const std::string& fault_here) {
  nlohmann::json json{{"version", 1}, {"items", nlohmann::json::array()}};
  for (const PlanItem& item : items) json["items"].push_back(to_json(item));
  const Amount sum = sum_of_needs(items, Storage::disk);
  json["need_bytes"] = sum.bytes;
  json["need_inodes"] = sum.inodes;
  const Amount memory = sum_of_needs(items, Storage::memory);
  if (memory.bytes > 0) json["need_memory_bytes"] = memory.bytes;
  if (node) {
    json["node"] = {{"name", node->name},
                    {"free_bytes", node->free.bytes},
                    {"leave_free_bytes", node->leave_free_bytes},
                    {"fits", fault_here.empty()}};
    if (node->free.inodes != k_no_limit) json["node"]["free_inodes"] = node->free.inodes;
  }
  if (!fault_here.empty()) json["fault"] = printable(fault_here, Newlines::join);
  std::printf("%s\n", json.dump(2).c_str());
}

}  // namespace

int plan(const PlanArguments& arguments) {
  if (::geteuid() == 0)
    return fault(
        "refuses to run as root: it decodes files of users, and root's jobs are not staged",
        "Run it as the user whose job it is: sudo -u USER nodestage plan ...");
  auto request = to_request(arguments.texts);
  if (!request) return wrong_usage(request.error().text(), k_option_advice);
  const auto text = request_text(*request);
  if (!text) return wrong_usage(text.error().text(), k_options_advice);
  if (!arguments.array.empty())
    if (const auto indices = indices_of_array(arguments.array); !indices)
      return wrong_usage(indices.error().text(), "man 1 sbatch describes --array.");
  std::vector<PlanItem> items;
  const unsigned threads = usable_cpus();
  for (const auto& item : request->datasets)
    items.push_back(plan_dataset(item, threads, arguments.array));
  if (request->venv) items.push_back(plan_venv(*request->venv, threads));
  const Config settings = settings_in(k_config_path);
  for (PlanItem& item : items) keep_to_rate(settings.read.max_rate_bytes, item);
  const auto node = this_plan_node(arguments.socket);
  for (const auto& item : request->outputs)
    items.push_back(plan_output(item, node ? node->least_interval_s : 0));
  if (items.empty())
    return wrong_usage("there is nothing to plan",
                       "Give at least one source, for example: nodestage plan "
                       "--stage-dataset=data.tar.gz");
  for (std::size_t i = 0; i < request->datasets.size(); ++i) {
    if (!items[i].tasks_largest.empty()) request->datasets[i].source = items[i].tasks_largest;
  }
  if (const auto planned = request_text(*request))
    find_kept(*planned, arguments.socket, k_config_path, items);
  const std::string fault_here = why_not_here(node, items);
  if (arguments.format == PlanFormat::json) {
    print_json(items, node, fault_here);
  } else {
    print_all(items, fault_here, {memory_limit(), settings.memory.max_share_percent});
  }
  const bool has_fault =
      !fault_here.empty() || std::any_of(items.begin(), items.end(),
                                         [](const PlanItem& item) { return !item.fault.empty(); });
  return has_fault ? k_fault : 0;
}

}  // namespace nodestage

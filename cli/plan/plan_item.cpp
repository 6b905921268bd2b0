#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <utility>

#include "cli/plan/plan.hpp"
#include "common/os/file.hpp"
#include "common/request/request_warnings.hpp"
#include "common/request/source_names.hpp"
#include "common/text/archive_names.hpp"
#include "common/text/human.hpp"
#include "common/text/path_names.hpp"
#include "daemon/worker/piece/dataset_sources.hpp"
#include "daemon/worker/piece/piece.hpp"
#include "daemon/worker/share/dataset_key.hpp"

namespace nodestage {
namespace {

// Below this size of a stream, advice to repack it is not worthwhile.
constexpr std::uint64_t k_worth_packing = std::uint64_t{64} << 20;
constexpr double k_worth_seconds = 2;
// Files per second that a node's disk takes; a cautious value, from docs/performance.md.
constexpr double k_files_per_second = 20000;

std::string pack_line(const std::string& source) {
  const std::string name = default_destination(source);
  return "extract it once, then: nodestage pack " + shell_word(name) + " -o " +
         shell_word(name + ".tar.zst");
}

std::string one_thread(const std::string& why) { return "by one thread: " + why; }

std::string many_threads(unsigned threads, const std::string& why) {
  return "in parallel, by " + counted(threads, "thread", "threads") + ": " + why;
}

// Adds how an archive or a compressed file is read, and for an archive advice for a faster format.
void set_reading(const Piece& piece, const PieceLook& look, unsigned threads, PlanItem& plan) {
  const ArchivePiece* archive = piece.archive();
  const bool is_slow = archive != nullptr && piece.size() >= k_worth_packing &&
                       plan.seconds >= k_worth_seconds && threads > 1;
  const auto serial = [&](const std::string& why) {
    plan.reading = one_thread(why);
    if (is_slow) {
      plan.advice.push_back(why + ": frames that all threads can decode are faster; " +
                            pack_line(plan.source));
    }
  };
  const auto parallel = [&](const std::string& why) {
    plan.is_parallel = threads > 1;
    plan.reading = many_threads(threads, why);
  };
  if (look.index) {
    if (look.index->is_plain) return parallel("each member of a zip can be read on its own");
    return serial("its members use a rare compression method");
  }
  if (archive != nullptr && !is_stream(archive->container()))
    return serial("an archive of the kind " + piece.kind() + " is one stream");
  const CodingRow& coding = row_of(piece.coding());
  const bool is_split =
      coding.splits == Splits::always ||
      (coding.splits == Splits::some && (look.threads > 1 || piece.xz_blocks() > 1));
  if (is_split) return parallel(std::string(coding.in_parts));
  serial(std::string(coding.one_thread));
}

double scaled(std::uint64_t part, std::uint64_t whole, double value) {
  return part == 0 ? 0 : value * static_cast<double>(whole) / static_cast<double>(part);
}

std::uint64_t rounded(double value) { return static_cast<std::uint64_t>(std::llround(value)); }

// Estimates the whole from the part that was read.
void set_amounts(const Piece& piece, const PieceLook& look, PlanItem& plan) {
  const std::uint64_t size = plan.source_bytes.value;
  if (look.index && plan.sources == 1) {
    plan.files = {look.index->files, Surety::exact};
    plan.bytes = {look.index->bytes, Surety::exact};
  } else if (piece.archive() == nullptr && piece.coding() == Coding::plain) {
    plan.files = {plan.sources, Surety::exact};
    plan.bytes = {size, Surety::exact};
  } else if (look.is_whole && plan.sources == 1) {
    plan.files = {look.files, Surety::exact};
    plan.bytes = {look.bytes, Surety::exact};
  } else if (look.files > 0) {
    // The last file counts as a whole, with what was not read of it.
    const std::uint64_t known = look.bytes + look.unread;
    const double bytes = std::max(scaled(look.position, size, static_cast<double>(look.bytes)),
                                  static_cast<double>(known));
    const double times =
        known == 0 ? scaled(look.position, size, 1) : bytes / static_cast<double>(known);
    plan.files = {rounded(times * static_cast<double>(look.files)), Surety::guessed};
    plan.bytes = {rounded(bytes), Surety::guessed};
    if (piece.archive() == nullptr) plan.files = {plan.sources, Surety::exact};
  }
}

void set_time(const Piece& piece, const PieceLook& look, PlanItem& plan) {
  if (look.position == 0) return;
  const double spent = static_cast<double>(look.spent.count()) / 1000;
  const double reading = scaled(look.position, plan.source_bytes.value, spent);
  const double making = static_cast<double>(plan.files.value) / k_files_per_second;
  plan.seconds = std::max(reading, making);
  const std::string part =
      look.is_whole && plan.sources == 1 ? "all" : "the first " + human_bytes(look.position);
  const bool is_decoded = !look.index && piece.coding() != Coding::plain;
  plan.time = about_seconds(plan.seconds) + ", as " + part + " of it took " +
              human_duration(static_cast<std::uint64_t>(look.spent.count())) + " to read" +
              (is_decoded ? " and decode" : "") + " on this host now";
  if (making > reading) {
    plan.time = about_seconds(plan.seconds) + ", for that many files, at " +
                human_count(static_cast<std::uint64_t>(k_files_per_second)) + " per second";
  }
}

Status look_at_file(Piece& piece, unsigned threads, PlanItem& plan) {
  TRY_ASSIGN(const Need need, piece.need());
  plan.need = need.expected;
  TRY_ASSIGN(const PieceLook look, piece.look(k_look));
  set_amounts(piece, look, plan);
  set_time(piece, look, plan);
  if (piece.archive() != nullptr || piece.coding() != Coding::plain) {
    set_reading(piece, look, threads, plan);
  } else {
    plan.reading = "as it is, in large blocks";
  }
  if (plan.sources > 1) {
    const auto bytes = static_cast<double>(need.expected.bytes);
    plan.need = {rounded(scaled(piece.size(), plan.source_bytes.value, bytes)), 0};
  }
  // A number of files is better than a guess of inodes. Directories add to it.
  if (plan.files.surety != Surety::unknown && !look.index) plan.need.inodes = plan.files.value + 1;
  plan.need.bytes = std::max(plan.need.bytes, plan.bytes.value);
  return {};
}

// What a node does for each job that shares a directory, as this host does it now. What must not be
// kept has no figures.
void measure_walk(const DatasetItem& item, const std::string& path, unsigned threads,
                  PlanItem& plan) {
  const Fd fd(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return;
  IdentifyOrder order;
  order.threads = threads;
  const auto begun = std::chrono::steady_clock::now();
  const TreeLook look = dataset_tree(item, path, fd.get(), {order});
  if (!look.why_not.empty()) return;
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begun;
  plan.walk_entries += look.entries;
  plan.walk_seconds = std::max(plan.walk_seconds, 0.0) + spent.count();
}

Status look_at(const std::vector<std::string>& sources, const Unpacking& wanted, unsigned threads,
               PlanItem& plan) {
  plan.sources = sources.size();
  RateLimit rate(-1);
  const std::atomic<bool> stop = false;
  Meter meter(rate, stop);
  PieceLimits limits;
  limits.threads = threads;
  TRY_ASSIGN(Piece piece, Piece::open(sources.front(), wanted, meter, limits));
  if (plan.destination.empty() && sources.size() == 1) plan.destination = piece.default_name();
  plan.what = piece.kind();
  if (sources.size() > 1) plan.what = human_count(sources.size()) + " × " + plan.what;
  if (piece.is_directory()) {
    const EntryFilter filter(0, {}, wanted.exclude);
    DirectoryLook look{{}, links_out(wanted), threads, &filter};
    if (wanted.only != nullptr) look.only = names_of(*wanted.only);
    for (const std::string& source : sources) look_at_directory(source, look, plan);
    return {};
  }
  plan.source_bytes.surety = Surety::exact;
  for (const std::string& source : wanted.parts.empty() ? sources : wanted.parts) {
    TRY_ASSIGN(const struct stat info, examine_source(source));
    plan.source_bytes.value += static_cast<std::uint64_t>(info.st_size);
  }
  Status looked = look_at_file(piece, threads, plan);
  if (!piece.note().empty()) plan.advice.push_back(piece.note());
  return looked;
}

// Files and directories that become one tree: the numbers are added, and the rest is of the files.
Status look_at_mixed(const std::vector<std::string>& sources, const Unpacking& wanted,
                     unsigned threads, PlanItem& plan) {
  std::vector<std::string> files;
  std::vector<std::string> directories;
  for (const std::string& source : sources) {
    TRY_ASSIGN(const struct stat info, examine_source(source));
    (S_ISDIR(info.st_mode) ? directories : files).push_back(source);
  }
  if (files.empty() || directories.empty()) return look_at(sources, wanted, threads, plan);
  PlanItem others = plan;
  TRY(look_at(files, wanted, threads, plan));
  TRY(look_at(directories, wanted, threads, others));
  plan.sources = sources.size();
  plan.what = human_count(sources.size()) + " sources";
  add_amounts(others, plan);
  if (plan.seconds >= 0 && others.seconds >= 0) {
    plan.seconds += others.seconds;
    plan.time = about_seconds(plan.seconds) + ", for the files and the directories together";
  }
  plan.advice.insert(plan.advice.end(), others.advice.begin(), others.advice.end());
  if (plan.fault.empty()) plan.fault = others.fault;
  return {};
}

// In files there is nothing that include= and exclude= could still leave out.
bool are_files(const NewestChoice& choice) {
  return std::all_of(choice.entries.begin(), choice.entries.end(),
                     [](const NewestEntry& entry) { return S_ISREG(entry.info.st_mode); });
}

Status look_at(const DatasetItem& item, unsigned threads, PlanItem& plan) {
  TRY_ASSIGN(DatasetSources sources, dataset_sources(item));
  Unpacking wanted(item);
  wanted.is_match = sources.is_group;
  if (!sources.note.empty()) plan.advice.push_back(sources.note);
  if (sources.newest) {
    plan.newest = names_of(*sources.newest);
    plan.newest_among = sources.newest->among;
    plan.newest_text = newest_text(*sources.newest);
    if (!sources.is_group) wanted.only = &*sources.newest;
  }
  // Before the files are counted, or the answers would come from memory.
  for (const std::string& path : sources.paths) {
    if (item.shared) measure_walk(item, path, threads, plan);
  }
  if (item.join) {
    wanted.parts = std::exchange(sources.paths, {sources.whole});
    TRY(look_at(sources.paths, wanted, threads, plan));
  } else {
    TRY(look_at_mixed(sources.paths, wanted, threads, plan));
  }
  if (item.merge != Merge::none && sources.paths.size() > 1)
    plan.advice.emplace_back("a file that several of them have is counted for each of them");
  const bool is_filtered = !item.include.empty() || !item.exclude.empty();
  if (is_filtered && !(wanted.only != nullptr && are_files(*wanted.only)))
    plan.advice.emplace_back("the numbers are for the whole source, before include= and exclude=");
  return {};
}

// From so many files of so few bytes on average on, their making is what takes the time.
constexpr std::uint64_t k_files_for_an_image = 100'000;
constexpr std::uint64_t k_small_file = 100'000;

// Returns the nearest existing ancestor of a target's path; at least "/".
std::string nearest(std::string path) {
  struct stat info {};
  while (!path.empty() && ::stat(path.c_str(), &info) != 0) path.resize(path.rfind('/'));
  return path.empty() ? "/" : path;
}

std::string interval_note(std::uint64_t wanted_s, std::uint64_t least_s) {
  if (least_s > wanted_s)
    return ", as this site delivers no more often than that (every=" + std::to_string(wanted_s) +
           ")";
  return least_s == 0 ? ", or less often if your site sets a longer interval" : "";
}

// `first`: the first of those that do not exist.
Error missing_of_tasks(const DatasetItem& item, const std::string& first, const PlanItem& plan) {
  const std::string of = std::string(" of ") +
                         (plan.tasks_looked < plan.tasks ? "the first " : "") +
                         human_count(plan.tasks_looked);
  std::string what = shown(first) + " does not exist";
  if (plan.tasks > 0)
    what = counted(plan.tasks_missing, "source" + of + " does", "sources" + of + " do") +
           " not exist: " + shown(first) + (plan.tasks_missing > 1 ? " and others" : "");
  return {ENOENT, std::move(what),
          std::string("Make what is missing before the job starts") +
              (has_index(item.source) ? ", or leave its index out of --array=" : "")};
}

Status unless_optional(const DatasetItem& item, const Error& error, PlanItem& plan) {
  if (!item.optional) return error;
  plan.advice.push_back(error.what + "; with the key optional, the job starts without it");
  return {};
}

// Chooses the largest source of an array's tasks; a glob or a directory counts as nothing. If none
// is known, or none exists, plan.tasks_largest stays empty.
Status choose_of_tasks(const DatasetItem& item, const std::string& array,
                       std::chrono::milliseconds limit, PlanItem& plan) {
  const auto names = names_before_start(item.source, array, WhichTasks::all);
  const bool lacks_array = array.empty() && has_index(item.source);
  if (!names && (names.error().code != ENODATA || lacks_array))
    return unless_optional(item, names.error(), plan);
  if (!names) {
    plan.advice.emplace_back("its name is known when the job runs: it is not looked at here");
    return {};
  }
  if (names->size() > 1) plan.tasks = names->size();
  std::string first_missing;
  std::uint64_t largest = 0;
  const auto end = std::chrono::steady_clock::now() + limit;
  for (const std::string& name : *names) {
    if (plan.tasks_looked > 0 && std::chrono::steady_clock::now() >= end) break;
    ++plan.tasks_looked;
    struct stat info {};
    const bool is_there = ::stat(name.c_str(), &info) == 0;
    if (!is_there && !source_exists(name)) {
      if (plan.tasks_missing++ == 0) first_missing = name;
      continue;
    }
    const auto bytes =
        is_there && S_ISREG(info.st_mode) ? static_cast<std::uint64_t>(info.st_size) : 0;
    plan.tasks_bytes += bytes;
    if (!plan.tasks_largest.empty() && bytes <= largest) continue;
    largest = bytes;
    plan.tasks_largest = name;
  }
  if (plan.tasks_missing == 0) return {};
  return unless_optional(item, missing_of_tasks(item, first_missing, plan), plan);
}

// Gives the further sources the names that they have in the first task.
void name_further(DatasetItem& item, const std::string& array, PlanItem& plan) {
  for (std::string& source : item.also) {
    if (!has_patterns(source)) continue;
    const auto names = names_before_start(source, array, WhichTasks::first_and_last);
    if (!names)
      plan.advice.push_back(shown(source) + ": its name is known when the job runs: it is not " +
                            "looked at here");
    source = names ? names->front() : "";
  }
  std::erase(item.also, "");
}

}  // namespace

void advise_image(const DatasetItem& item, PlanItem& plan) {
  DatasetItem mounted = item;
  mounted.mount = true;
  const std::uint64_t files = plan.files.value;
  const bool is_worth_it =
      files >= k_files_for_an_image && plan.bytes.value / files < k_small_file && !item.mount;
  if (!is_worth_it || key_conflict(mounted)) return;
  const ArchiveName* name = archive_name(item.source);
  const bool is_packable = name == nullptr || name->container == Container::tar;
  const std::string image = default_destination(item.source) + ".sqsh";
  plan.advice.push_back(
      "an image of so many small files is staged as one file and mounted: "
      "nodestage pack --image " +
      shell_word(image) + " " + (is_packable ? shell_word(item.source) : "DIR") + ", and then " +
      shell_word("--stage-dataset=" + image + ",mount"));
}

PlanItem plan_dataset(const DatasetItem& dataset, unsigned threads, const std::string& array,
                      std::chrono::milliseconds tasks_limit) {
  DatasetItem item = dataset;
  PlanItem plan;
  plan.option = "stage-dataset";
  plan.source = item.source;
  plan.destination = item.destination;
  plan.is_shared = item.shared;
  plan.is_in_memory = item.storage == Storage::memory;
  Status looked;
  if (has_patterns(item.source)) {
    looked = choose_of_tasks(item, array, tasks_limit, plan);
    item.source = plan.tasks_largest;
    plan.has_source = !item.source.empty();
  }
  name_further(item, array, plan);
  if (plan.has_source) {
    const Status largest = look_at(item, threads, plan);
    if (looked) looked = largest;
    if (looked) advise_image(item, plan);
  }
  if (!looked) plan.fault = looked.error().text();
  return plan;
}

PlanItem plan_venv(const VenvItem& item, unsigned threads) {
  PlanItem plan;
  plan.option = "stage-venv";
  plan.source = item.source;
  plan.destination = item.destination;
  plan.is_shared = item.shared;
  if (item.shared) measure_walk({}, item.source, threads, plan);
  const Status looked = look_at({item.source}, Unpacking::of_venv(item.source), threads, plan);
  if (!looked) plan.fault = looked.error().text();
  if (plan.what == "directory") {
    const bool is_conda = has_entry(AT_FDCWD, item.source + "/conda-meta");
    plan.what = is_conda ? "conda environment" : "virtual environment";
    plan.advice.assign(
        1, "each node reads every file of it: an archive of it is faster; nodestage pack " +
               shell_word(item.source) + " -o " + shell_word(item.source + ".tar.zst"));
    add_interpreter(item, threads, plan);
  } else if (plan.what == "file") {
    plan.what = "requirements file";
    plan.reading = "a virtual environment is built from wheels on the node";
    plan.bytes = plan.files = {};
    plan.need = {};
    plan.time.clear();
    plan.seconds = -1;
    plan.advice.assign(1,
                       "how long the build takes is not known beforehand; `nodestage run "
                       "--stage-venv=... -- true` shows it");
  }
  return plan;
}

PlanItem plan_output(const OutputItem& item, std::uint64_t least_interval_s) {
  static constexpr const char* k_when[] = {"always", "after success", "after a failure"};
  PlanItem plan;
  plan.option = "stage-out";
  plan.source = item.source;
  plan.destination = item.target;
  const bool is_packed = item.pack || !archive_suffix(item.target).empty();
  plan.what = std::string(is_packed ? "packed into one archive, " : "copied, ") +
              k_when[static_cast<int>(item.when)];
  if (item.every_s != 0) {
    plan.every_s = std::max<std::uint64_t>(item.every_s, least_interval_s);
    plan.what += ", and every " + human_duration(1000 * plan.every_s) + " while the job runs" +
                 interval_note(item.every_s, least_interval_s);
  }
  // The path from the first pattern on is known only in the job.
  const std::string fixed = item.target.substr(0, item.target.find('%'));
  const std::string place = nearest(fixed.substr(0, fixed.rfind('/') + 1));
  if (::access(place.c_str(), W_OK | X_OK) != 0) {
    plan.fault =
        Error{0, shown(place) + ": you cannot write there", "Name a target in a directory of yours"}
            .text();
  }
  return plan;
}

void keep_to_rate(std::uint64_t rate, PlanItem& plan) {
  if (rate == 0 || plan.seconds < 0) return;
  const double least = static_cast<double>(plan.source_bytes.value) / static_cast<double>(rate);
  if (least <= plan.seconds) return;
  plan.seconds = least;
  plan.time = about_seconds(least) + " at least, as this site lets all jobs of a node read " +
              human_bytes(rate) + "/s together (read.max_rate)";
}

}  // namespace nodestage

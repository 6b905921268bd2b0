// PlanItem: what is known of one item before its staging, and the resulting forecast.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/base/conversation.hpp"
#include "common/request/request.hpp"
#include "common/wire/status_file.hpp"
#include "daemon/worker/archive/entry_filter.hpp"
#include "daemon/worker/tree/out_links.hpp"

namespace nodestage {

// How certain a number is.
enum class Surety { unknown, guessed, at_least, exact };

struct Known {
  std::uint64_t value = 0;
  Surety surety = Surety::unknown;
};

// Whether this node keeps a shared item already.
enum class KeptHere {
  unknown,  // no daemon answers on this machine
  hit,      // it does
  miss,     // not yet
  refused,  // it would not keep it
};

// Texts are not made printable yet.
struct PlanItem {
  std::string option;       // "stage-dataset"
  std::string source;       // as it was given, absolute
  std::string destination;  // below $SLURM_TMPDIR; "": not known
  std::string what;         // "tar.gz", "directory", "3 × tar"
  std::uint64_t sources = 1;
  Known source_bytes;
  Known bytes;          // on local disk
  Known files;          // every kind of entry but directories
  Amount need;          // the expected need of local disk; 0 if not known
  std::string reading;  // how it is read, and why
  std::string time;     // an estimate and its basis; "" if not known
  double seconds = -1;  // the same; negative: not known
  bool is_parallel = false;
  bool is_shared = false;  // the request has the key `shared`
  KeptHere kept = KeptHere::unknown;
  std::uint32_t kept_by = 0;        // for a hit: the job that staged it
  std::string kept_by_name;         // and as its user calls it
  std::string not_kept;             // for `refused`: why
  std::vector<std::string> newest;  // what newest= would choose now, the newest first
  std::uint64_t newest_among = 0;   // how many there are to choose from
  std::string newest_text;          // the same as a sentence; "": without newest=
  std::uint64_t every_s = 0;        // of an output: the interval of its deliveries here; 0: none
  std::vector<std::string> advice;
  std::string fault;  // why it cannot be staged now: a line with the cause, a line with the advice
  // Of a shared directory: what each job looks at, in how many seconds; negative: not known.
  std::uint64_t walk_entries = 0;
  double walk_seconds = -1;
  bool is_in_memory = false;  // `need` is of the job's memory
  // Of a source with patterns: what is planned is the largest one.
  std::uint64_t tasks = 0;          // how many names it has; 0: one for all tasks
  std::uint64_t tasks_looked = 0;   // of these, how many were looked at: the first ones
  std::uint64_t tasks_missing = 0;  // of these, how many do not exist
  std::uint64_t tasks_bytes = 0;    // of the files among the others
  std::string tasks_largest;
  bool has_source = true;  // false: its name is not known here, or nothing has one of its names
};

// A site's read.max_rate, in bytes a second; 0: no limit. All jobs of a node share it.
void keep_to_rate(std::uint64_t rate, PlanItem& plan);

// The time limit for examining one source.
inline constexpr std::chrono::milliseconds k_look{1000};
// And for looking for those of an array's tasks. At least one is looked for.
inline constexpr std::chrono::milliseconds k_tasks_look{3000};

// `array`: sbatch's --array=; "": the job is none.
PlanItem plan_dataset(const DatasetItem& item, unsigned threads, const std::string& array = "",
                      std::chrono::milliseconds tasks_limit = k_tasks_look);
PlanItem plan_venv(const VenvItem& item, unsigned threads);
// `least_interval_s` is the shortest `every` of this node; 0: not known.
PlanItem plan_output(const OutputItem& item, std::uint64_t least_interval_s = 0);

// How a directory is looked at.
struct DirectoryLook {
  std::vector<std::string> only = {};  // the names of the entries that count; empty: all
  LinksOut links = LinksOut::kept;
  unsigned threads = 1;
  const EntryFilter* filter = nullptr;  // what it excludes need not be readable; null: nothing
};

// Fills in a directory's `what`, bytes, files and time, and advice if it has many files or links
// that lead out of it.
void look_at_directory(const std::string& path, const DirectoryLook& look, PlanItem& plan);

// Adds advice for what is so many small files that to mount an image of them would save their
// staging, unless a key of the item cannot be together with mount.
void advise_image(const DatasetItem& item, PlanItem& plan);

// Adds the amounts of another item, or part of one.
void add_amounts(const PlanItem& other, PlanItem& plan);

// Adds the interpreter that is staged with an environment (its standard library, which is most of
// it), and a line that says so.
void add_interpreter(const VenvItem& item, unsigned threads, PlanItem& plan);

// Finds out, as their user, whether this node keeps a request's shared items already: sets `kept`
// and what belongs to it in the shared ones of `items`, which are those of `request` (as
// encode_request() gives it) in its order. `socket` is that of this machine's daemon, and `config`
// the path of its configuration, on which keys depend. What cannot be read has its default: at
// worst, a hit looks like a miss. Changes nothing if the daemon does not answer.
void find_kept(const std::string& request, const std::string& socket, const std::string& config,
               std::vector<PlanItem>& items);

// Returns a sentence without its subject, which is a shared item.
std::string kept_text(const PlanItem& item);

enum class PlanFormat { text, json };

// nodestage plan [options]
struct PlanArguments {
  RequestTexts texts;
  std::string socket;  // of this machine's daemon, for shared items
  std::string array;   // of the job, as sbatch takes it
  PlanFormat format = PlanFormat::text;
};

// Examines each source for about a second, changes nothing, and prints a forecast of its staging.
// Exit code: 0; 1: an item could not be staged in its present state, or the caller is root;
// k_wrong_usage.
int plan(const PlanArguments& arguments);

}  // namespace nodestage

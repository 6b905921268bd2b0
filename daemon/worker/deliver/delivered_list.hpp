// DeliveredList: what of a job's outputs was delivered while the job ran, so that a later delivery
// copies only what has changed since.
//
// The file k_worker_delivered_fd: a header of k_delivered_head_bytes, then a record for each
// delivery of a file, link, or directory, in the order of deliveries. The last record of a name
// counts. Only the workers of one job write and read it, one at a time, with the rights of the
// job's user: what it says is a claim of that user about their own files. A header, record, or tail
// that is not complete (the worker was killed) reads as if it were not there: what it would say is
// copied again.
//
//   offset 0      u64 magic, u64 is_busy (1: a worker that set it has not ended by itself),
//                 u64 unfinished (bit i: deliveries of output i may not be synced as a whole),
//                 text: the path of the temporary name in a target that is in use; NUL-terminated;
//                 at its end u32 for each output: how many files were pruned; and another: how
//                 many deliveries have brought something
//   then, each    u64 name (FNV-1a of the output's index, '/', the path below its target, and for
//                 a directory another '/'),
//                 u64 device, u64 inode, u64 size, i64 mtime, i64 ctime (nanoseconds since 1970),
//                 u64 check (FNV-1a of the bytes before it)
//                 of a directory: the mode for size; DirectoryOrigin for ctime
//                 of an output with `prune`, a second record, whose name ends in "//": the copy in
//                 the target, with k_copy_time + the output's index for ctime; of all
//                 outputs beside it, a record whose path is the copy's absolute one
//   Native byte order. A record of which all is k_forgotten says that nothing is known of its name.
#pragma once

#include <sys/stat.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "common/os/file.hpp"
#include "common/result.hpp"
#include "common/wire/status_file.hpp"
#include "daemon/worker/deliver/output_links.hpp"
#include "daemon/worker/tree/file_data.hpp"

namespace nodestage {

inline constexpr std::size_t k_delivered_head_bytes = 4096;

// Which process made a directory in a target.
enum class DirectoryOrigin {
  delivery,  // it gets its source's mode and time
  others,
};

// Returns the path of the temporary name that a killed worker left in the list `fd`, if its base
// name begins with `prefix` (PendingNames) and ends in ".tmp"; else "".
std::string left_temporary(int fd, std::string_view prefix);

// For one thread. A file that cannot be written only costs time later: nothing is reported.
class DeliveredList {
 public:
  // Reads the list. `fd` is borrowed, and open for reading and writing. Without one (-1), nothing
  // was delivered, and nothing is noted.
  explicit DeliveredList(int fd);
  DeliveredList(const DeliveredList&) = delete;
  DeliveredList& operator=(const DeliveredList&) = delete;

  // Removes left_temporary(), and marks the list as busy.
  void begin(std::string_view prefix);
  // Notes that the worker ends by itself, with no temporary name left.
  void end();
  // Returns whether an earlier worker did not end by itself.
  [[nodiscard]] bool was_busy() const { return was_busy_; }

  // Begins the deliveries of an output. Returns whether earlier ones were cut off, so that names
  // that they made may not be synced.
  bool begin_output(std::size_t item);
  // Notes that all that was noted of the output is synced.
  void end_output(std::size_t item);
  // Counts a delivery of the output that has brought something. Returns how many have.
  std::uint64_t add_delivery(std::size_t item);
  [[nodiscard]] std::uint64_t deliveries(std::size_t item) const { return deliveries_[item]; }
  // Drops what was noted since begin_output(), since it could not be synced.
  void take_back();

  // Returns whether the entry `path` of the output's target looks as it did when it was last
  // delivered; a directory by mode and mtime alone.
  [[nodiscard]] bool has(std::size_t item, std::string_view path, const struct stat& info) const;
  // The mode of a directory in the target, if a delivery has made it.
  [[nodiscard]] std::optional<mode_t> made_mode(std::size_t item, std::string_view path) const;

  // Notes an entry that was delivered as it looks in `info`, and has its name in the target.
  void add(std::size_t item, std::string_view path, const struct stat& info);
  void add_directory(std::size_t item, std::string_view path, const struct stat& info,
                     DirectoryOrigin origin);
  // Notes how the copy of a file or link looks in the target, for `prune`.
  void add_copy(std::size_t item, std::string_view path, const struct stat& copy);
  // Notes that the output has that entry of a directory in a target, if places matter.
  void add_place(std::size_t item, int directory, const std::string& name);
  // The output gives it up. Returns whether another output has it.
  bool leave_place(std::size_t item, int directory, const std::string& name);
  void note_places() { notes_places_ = true; }

  // Names of copies, by their hashes.
  using CopyNames = std::unordered_set<std::uint64_t>;
  static std::uint64_t copy_name(std::size_t item, std::string_view path);
  // The copies of the output that are not among `names`.
  [[nodiscard]] CopyNames copies_but(std::size_t item, const CopyNames& names) const;
  // Returns whether there is one with that name.
  [[nodiscard]] bool has_copy(std::size_t item, std::string_view path) const;
  // Returns whether `there`, in the target, is the copy as it was delivered.
  [[nodiscard]] bool is_copy(std::size_t item, std::string_view path,
                             const struct stat& there) const;
  // Returns whether a delivery has been in a directory of that name.
  [[nodiscard]] bool has_directory(std::size_t item, std::string_view path) const;
  // Forgets all that was noted of the path. What has it again is delivered again.
  void forget(std::size_t item, std::string_view path);
  // Counts files that were removed in the target.
  void add_pruned(std::size_t item, std::uint32_t count);
  [[nodiscard]] std::uint64_t pruned(std::size_t item) const { return pruned_[item]; }

  // Notes a temporary name, before it is made in a target.
  void note_temporary(std::string_view path);

 private:
  struct Look {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::uint64_t size = 0;
    std::int64_t mtime = 0;
    std::int64_t ctime = 0;

    bool operator==(const Look&) const = default;
  };
  struct Record;
  static Look look_of(const struct stat& info);
  static Look copy_look(std::size_t item, const struct stat& copy);
  [[nodiscard]] const Look* find(std::uint64_t name) const;
  static Record record_of(std::uint64_t name, const Look& look);
  std::size_t read_records();
  void compact();
  [[nodiscard]] bool has_room(std::uint64_t name) const;
  void note(std::uint64_t name, const Look& look);

  int fd_ = -1;
  bool was_busy_ = false;
  bool notes_places_ = false;
  std::uint64_t unfinished_ = 0;
  std::array<std::uint32_t, k_max_request_items> pruned_{};
  std::array<std::uint32_t, k_max_request_items> deliveries_{};
  std::uint64_t end_ = k_delivered_head_bytes;         // where the next record goes
  std::uint64_t output_end_ = k_delivered_head_bytes;  // at begin_output()
  std::vector<std::uint64_t> noted_;                   // names, since begin_output()
  std::unordered_map<std::uint64_t, Look> last_;       // by the hash of the name
};

// CopyScope: decides which entries of an output are copied.
enum class CopyWhat {
  all,
  missing,  // not what was delivered earlier and is still in the target as it was
  changed,  // while the job runs: what has changed since it was delivered, and is whole
};

// The files and links that a recovery has made for its outputs so far.
using MadeEntries = std::set<HardLinks::Id>;

// Pruning: removes in an output's target what its job has removed since it was delivered (`prune`).

// Nothing is removed unless the source was read in full and has something left of what was
// delivered: who removes all of it, or loses it, keeps the results. An entry of the target goes
// only if it looks as this job has delivered it. Others may write there, too: no link is followed.
class Pruning {
 public:
  // Borrows the list.
  Pruning(DeliveredList& list, std::size_t item) : list_(list), item_(item) {}

  // Begins a look at the source.
  void begin();
  // Notes an entry of the source, by the path of its copy. Only what was delivered can be gone.
  void see(const std::string& path) {
    if (list_.has_copy(item_, path) || list_.has_directory(item_, path))
      seen_.insert(DeliveredList::copy_name(item_, path));
  }
  // Notes a file that is left for the next delivery: it may be what replaces older entries in the
  // target, unless it was begun long ago. Then it is no checkpoint.
  void wait_for(const SourceEntry& file, const SettleRules& rules);
  // The look shows less than there is, or what changes meanwhile.
  void give_up() { may_remove_ = false; }
  // Whether the source has what is copied to that path; of "": whether its directory is there.
  using IsThere = std::function<bool(const std::string& path)>;
  // The delivery is whole and synced. `target` is the directory in which the paths begin.
  void allow(Fd target, IsThere is_there) {
    target_ = std::move(target);
    is_there_ = std::move(is_there);
  }

  // Removes, if that was allowed, but nothing of these sizes. Returns how many files and links,
  // with those of earlier calls.
  using Sizes = std::unordered_set<std::int64_t>;
  std::uint64_t run(const Sizes& kept);

 private:
  void prune_in(int directory, const std::string& prefix);
  void prune_file(int directory, const std::string& name, const std::string& path);
  void prune_directory(int parent, const std::string& name, const std::string& path);

  DeliveredList& list_;
  std::size_t item_;
  bool may_remove_ = true;
  Fd target_;
  IsThere is_there_;  // what was gone may have been made again since the look
  DeliveredList::CopyNames seen_;
  DeliveredList::CopyNames gone_;
  Sizes kept_;
  std::uint32_t count_ = 0;
};

// Borrows everything.
struct CopyScope {
  CopyWhat what = CopyWhat::all;
  DeliveredList* list = nullptr;         // unless `all`; `changed` continues it
  std::size_t item = 0;                  // the output's index in it
  const SettleRules* settled = nullptr;  // null: the usual ones
  OutputLinks* links = nullptr;          // null: all links are copied as they are
  bool syncs_all = false;  // `changed`: earlier deliveries may have left directories without a sync
  LeavesOut leaves_out = {};  // empty: nothing is left out
  // Unless null, only what is in it is replaced in the target. Anything else that has the name of
  // an entry is a fault, unless it has the same content.
  MadeEntries* replaces_only = nullptr;
  // Unless 0, nothing is replaced that was changed in the target since then (seconds since 1970),
  // but for what an earlier try has delivered.
  std::uint64_t held_since = 0;
  Pruning* pruning = nullptr;  // null: what the job removes stays in the target

  // What is told to `pruning`.
  void see(const std::string& path) const {
    if (pruning != nullptr) pruning->see(path);
  }
  [[nodiscard]] Status leave_all() const {
    if (pruning != nullptr) pruning->give_up();
    return {};
  }

  [[nodiscard]] bool is_early() const { return what == CopyWhat::changed; }

  [[nodiscard]] const SettleRules& rules() const {
    return settled != nullptr ? *settled : usual_settle_rules();
  }

  // Returns whether what looks as `there` may be replaced.
  // `copied`: when what would replace it was changed; 0: not known.
  [[nodiscard]] bool may_replace(const struct stat& there, time_t copied = 0) const {
    if (replaces_only != nullptr) return replaces_only->contains(HardLinks::id(there));
    return !is_newer(there, copied);
  }
  // A change of its owner or mode, or of its number of names, makes no file newer.
  [[nodiscard]] bool is_newer(const struct stat& there, time_t copied) const {
    const auto is_since_hold = [this](time_t time) {
      return std::cmp_greater_equal(time, held_since);
    };
    return held_since != 0 && !S_ISDIR(there.st_mode) && is_since_hold(there.st_ctim.tv_sec) &&
           (is_since_hold(there.st_mtim.tv_sec) || (copied != 0 && there.st_mtim.tv_sec >= copied));
  }

  // Returns whether the list has the entry as it looks in `info`.
  [[nodiscard]] bool is_noted(const std::string& path, const struct stat& info) const {
    return list != nullptr && list->has(item, path, info);
  }
};

}  // namespace nodestage

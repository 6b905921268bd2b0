// StagedItem: one item of a request that a worker stages, a dataset or a virtual environment: its
// position among the others, the space that it needs, and its parts for what the others may know:
// its progress and its sharing.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/request/request.hpp"
#include "common/result.hpp"
#include "common/wire/status_file.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/worker/basis/fault.hpp"
#include "daemon/worker/budget/meter.hpp"
#include "daemon/worker/budget/space.hpp"
#include "daemon/worker/piece/piece.hpp"
#include "daemon/worker/share/share_key.hpp"
#include "daemon/worker/spool/item_relay.hpp"
#include "daemon/worker/spool/relayed_sources.hpp"
#include "daemon/worker/stage/workspace.hpp"

namespace nodestage {

class Builder;

// ItemProgress: what a staged item has done so far, for its record in the status file. For any
// thread.
class ItemProgress {
 public:
  using Clock = std::chrono::steady_clock;

  void begin();
  // Records how it has ended. A fault replaces the note.
  void end(const Status& status);

  void set_note(const std::string& text);
  // Appends a text that the note does not have yet; not an empty one.
  void add_note(const std::string& text);
  // Several kinds become "sources".
  void set_kind(const std::string& kind);
  // Below the job directory; "." for that itself.
  void set_destination(const std::string& destination);

  [[nodiscard]] std::string destination() const;  // "" while it is not known
  [[nodiscard]] ItemState state() const;

  // Fills in the state, the times, the kind and the note. The last byte of the source was read at
  // `read_to`, or not yet if that is zero; the kind is that of so many sources.
  void fill(ItemRecord& record, Clock::time_point read_to, std::size_t sources) const;

 private:
  mutable std::mutex mutex_;  // over what follows
  ItemState state_ = ItemState::waiting;
  bool is_over_quota_ = false;
  std::string kind_;
  std::string note_;
  std::string destination_;
  std::optional<Clock::time_point> begun_;
  std::optional<Clock::time_point> ended_;
  std::uint64_t staged_ns_ = 0;
};

// What was decided for a shared item of the request; null: nothing, so it is the job's own.
const SharedItem* decided_for(const StageOrder& order, std::size_t item);

// ItemSharing: what the daemon has decided for a staged item that asks to be shared, and what has
// become of that (common/wire/worker_order.hpp). For any thread.
class ItemSharing {
 public:
  // The key `shared`, and what goes with it: `writable`, or `mount`.
  enum class Asked { no, yes, writable, mounted };

  ItemSharing(Asked asked, std::size_t item, const StageOrder& order);  // borrows the order

  [[nodiscard]] bool is_asked() const { return asked_ != Asked::no; }
  // The job has directories of its own, with links to what is kept.
  [[nodiscard]] bool is_spread() const {
    return asked_ == Asked::writable && role() != ShareRole::own;
  }
  // What is staged gets no write bits.
  [[nodiscard]] bool is_read_only() const {
    return asked_ == Asked::yes || asked_ == Asked::mounted || is_spread();
  }
  [[nodiscard]] ShareRole role() const { return decided_ ? decided_->role : ShareRole::own; }
  [[nodiscard]] bool is_link() const { return role() == ShareRole::link; }
  [[nodiscard]] bool is_lead() const { return role() == ShareRole::lead; }
  // In the cache; only of an item that leads or links.
  [[nodiscard]] const std::string& path() const { return decided_->path; }
  // For the keys of an item that leads: the sources are looked at as they were when they were
  // identified.
  [[nodiscard]] ShareRules rules(unsigned umask, const std::atomic<bool>& stop) const;

  // Decides of an item that leads, when its sources were read, whether it can be kept, by what they
  // were before and after that. `path` is where it is staged. Returns the path that the job will
  // use.
  std::string judge(const SourceIdentity& before, const SourceIdentity& after,
                    const std::string& path);
  // The item is a link to path().
  void set_linked() { is_linked_ = true; }

  // The job uses the item at path().
  [[nodiscard]] bool is_linked() const { return is_linked_; }
  // Another process has staged it there for this job; decided() says how much.
  [[nodiscard]] bool was_staged_for_it() const { return is_link() && decided_->elapsed_ms != 0; }
  [[nodiscard]] const SharedItem& decided() const { return *decided_; }
  // It was staged to be kept there, and can be.
  [[nodiscard]] bool is_whole() const { return is_whole_; }
  [[nodiscard]] std::string note() const;

 private:
  const StageOrder& order_;
  const Asked asked_;
  const SharedItem* const decided_;  // null for an item without `shared`

  std::atomic<bool> is_whole_ = false;
  std::atomic<bool> is_linked_ = false;
  mutable std::mutex mutex_;                                     // over what follows
  std::string unkept_ = "an earlier try of this job staged it";  // why it is not whole
};

// What all items of a worker share, of those with in=memory or of the others; borrowed.
struct StageContext {
  const StageOrder& order;
  Workspace& workspace;
  mode_t umask;
  RateLimit& rate;
  const std::atomic<bool>& stop;
  Allowance& allowance;
  RelayedSources* relays;  // null: nothing is relayed
  std::size_t at_once;     // items that run side by side
  PieceLimits limits;      // of each of them
  // Where they are staged: `workspace` is that of this directory.
  const std::string& directory;
  int dir_fd;
  // In memory: that of the job directory, in which a link leads to each. Otherwise null.
  Workspace* links;
};

// Of an item that is not mounted, in place of its index among the job's images.
inline constexpr std::size_t k_no_image = SIZE_MAX;

// An item with `shared` gets no write bits, whatever its ShareRole, unless it is `writable` and the
// job's own. One that is only linked is neither opened nor weighed.
//
// Not movable. One thread at a time calls plan(), then weigh(), then run(). The rest is for any
// thread.
class StagedItem {
 public:
  StagedItem(const StagedItem&) = delete;
  StagedItem& operator=(const StagedItem&) = delete;
  virtual ~StagedItem() = default;

  // Finds the sources and claims the destination, as far as that is known without reading.
  virtual Status plan() = 0;

  // Opens the first source and derives from it what all of them will take of the local disk:
  // need(). An `async` item does that in run(), and asks the Allowance for it.
  virtual Status weigh() = 0;
  [[nodiscard]] const Need& need() const { return need_; }

  // Whether all that it reads is to be relayed; known once it was planned.
  [[nodiscard]] bool is_relayed() const { return is_relayed_; }

  // Stages everything.
  Status run();

  // Records the result of plan(), weigh(), and run(), for the status record and the log.
  void end(const Status& status);
  // The same for a weighed item for which there is no room.
  void leave_out(const Error& refusal);

  // A variable of the job, and its path. Nothing before the destination is known or
  // when it failed.
  struct Variable {
    std::string name;
    std::string value;
  };
  [[nodiscard]] std::optional<Variable> variable() const;

  // What newest= has chosen, after plan(): "start: a.pt, b.pt", printable; "": it was not asked to.
  [[nodiscard]] virtual std::string chosen() const { return {}; }
  [[nodiscard]] std::size_t index() const { return index_; }  // among all of the request
  [[nodiscard]] ItemRecord record() const;
  [[nodiscard]] virtual std::string name() const = 0;  // for messages: "dataset 'x'"
  [[nodiscard]] std::string source() const { return shown(source_); }
  [[nodiscard]] bool is_async() const { return patience_ == Patience::async; }
  [[nodiscard]] bool is_needed() const;  // its failure fails the job
  [[nodiscard]] bool is_in_memory() const { return context_.links != nullptr; }
  [[nodiscard]] const ItemSharing& sharing() const { return sharing_; }
  [[nodiscard]] ItemProgress& progress() { return progress_; }

 protected:
  // Whether the job waits for it, and fails with it.
  enum class Patience { needed, optional, async };

  // All is borrowed. The keeper (StageOrder::for_readers) mounts nothing, whatever `image` is.
  StagedItem(const std::string& source, Patience patience, ItemSharing::Asked shared,
             std::size_t index, const StageContext& context, std::size_t image = k_no_image);

  // The work of run().
  virtual Status stage() = 0;
  [[nodiscard]] virtual const char* noun() const = 0;         // for the log: "dataset"
  [[nodiscard]] virtual std::uint32_t kind_flag() const = 0;  // of the record
  [[nodiscard]] virtual std::string short_name() const = 0;   // of the record
  [[nodiscard]] virtual std::string variable_name() const = 0;

  // Looks at sources_, or at the parts of the only one, which must be there, and learns how large
  // they are.
  Status measure(const std::vector<std::string>* parts = nullptr);
  // An item that begins at once goes on with what is open; of others it would only take memory.
  void keep_open(Piece piece);
  Result<Piece> open_piece(const std::string& source, const Unpacking& wanted);
  Result<bool> keep_placed(const std::string& destination);
  Status place(int from_fd, const char* name, const std::string& destination);
  [[nodiscard]] bool is_mounted() const { return image_ != k_no_image; }
  // Where the tree itself is, for a destination.
  [[nodiscard]] std::string tree_of(const std::string& destination) const;
  [[nodiscard]] bool may_relay(bool is_directory) const;
  // Where no two items may have the same destination: the job directory.
  [[nodiscard]] Workspace& names() const {
    return context_.links != nullptr ? *context_.links : context_.workspace;
  }
  // For the keys of an item that leads.
  [[nodiscard]] ShareRules share_rules() const {
    return sharing_.rules(context_.umask, context_.stop);
  }
  // Where the job finds the item: the job directory while nothing more is known.
  [[nodiscard]] std::string destination_path() const;
  [[nodiscard]] std::string path_in(const std::string& directory) const;

  static constexpr std::string_view k_job_directory = ".";
  const std::string& source_;
  const Patience patience_;
  const std::size_t index_;
  const std::size_t image_;
  const StageContext& context_;
  Meter meter_;
  ItemRelay relay_;
  Space space_;
  std::vector<std::string> sources_;
  std::uint64_t source_bytes_ = 0;
  bool is_relayed_ = false;     // as far as is known
  bool is_of_node_ = false;     // no other node has the same source
  std::optional<Piece> first_;  // of the sources, when it is open already
  Need need_;
  std::atomic<std::uint64_t> source_mark_ = 0;  // of the record

  ItemSharing sharing_;
  ItemProgress progress_;

 private:
  Status link();
  Status spread(const std::string& destination);
  Status expose(const std::string& destination);
  Status show(const std::string& destination);
  Status mount(const std::string& destination);
  Status lead(const std::string& name, const std::string& path);
  [[nodiscard]] Status look_at_image(const std::string& tree) const;
  [[nodiscard]] Status look_at_mount() const;
  void give_up_mount();
  [[nodiscard]] const std::string& mount_path() const {
    return context_.order.images.mounts[image_];
  }
  void fill_amounts(ItemRecord& record) const;
  [[nodiscard]] std::uint32_t flags() const;
};

// A --stage-dataset= option. Borrows everything. An `async` one determines its destination when it
// is planned, so that the job can know it before the data arrives. `image`: its index among the
// job's images, or k_no_image.
std::unique_ptr<StagedItem> make_dataset(const DatasetItem& item, std::size_t index,
                                         const StageContext& context, std::size_t image);

// A --stage-venv= option. Borrows everything. `builder` may be null if the site refuses
// environments, or if this one is only linked.
std::unique_ptr<StagedItem> make_staged_venv(const VenvItem& item, std::size_t index,
                                             const StageContext& context, Builder* builder);

// In the request's order: datasets, then the environment.
using StagedItems = std::vector<std::unique_ptr<StagedItem>>;

// Admits everything that a job waits for, as a whole and before any of it is written.

// What is asked for beside the items: `least` bytes if there is no room for `wanted`.
struct Spare {
  std::uint64_t wanted = 0;
  std::uint64_t least = 0;
};

// All items must have been weighed. While there is no room for all, removes the largest item that
// the job does not need from `items` and leaves it out. A fault if the rest does not fit. Returns
// what is admitted of `spare`, which is given up before any item.
Result<std::uint64_t> admit_items(std::vector<StagedItem*>& items, const Spare& spare,
                                  Allowance& allowance);

// SpoolSpace: what the relay worker's spool takes of the local disk, as this worker's claim.
//
// The relay worker writes the spool and has no claim of its own. What it is expected to take is
// admitted with the data, and counts as written as far as the spool has grown. Where the data find
// no more room, the spool is given up for them.
// One thread. Everything is borrowed.
class SpoolSpace {
 public:
  // `relays`: null if nothing is relayed.
  SpoolSpace(RelayedSources* relays, Allowance& allowance, const std::atomic<bool>& stop);

  // admit_items(), and the spool with them, a smaller one if there is no room for all that it
  // could take. Without room for that, nothing is relayed.
  Status admit(std::vector<StagedItem*>& items, std::size_t at_once);

  // Call it several times a second. It also shows the relay worker that this worker lives.
  void count();

  // Nothing more is asked for: returns what the spool did not take.
  void end();

 private:
  RelayedSources* const relays_;
  Allowance& allowance_;
  const std::atomic<bool>& stop_;
  Space space_;
  std::uint64_t claimed_ = 0;
  std::uint64_t counted_ = 0;
};

}  // namespace nodestage

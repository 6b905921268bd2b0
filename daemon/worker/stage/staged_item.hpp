// StagedItem: one item of a request that a worker stages, a dataset or a virtual environment: its
// position among the others, the space that it needs, and its parts for what the others may know:
// its progress and its sharing.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/wire/status_file.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/worker/basis/fault.hpp"
#include "daemon/worker/budget/meter.hpp"
#include "daemon/worker/budget/space.hpp"
#include "daemon/worker/piece/piece.hpp"
#include "daemon/worker/spool/item_relay.hpp"
#include "daemon/worker/spool/relayed_sources.hpp"
#include "daemon/worker/stage/item_sharing.hpp"
#include "daemon/worker/stage/workspace.hpp"

namespace nodestage {

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
  Workspace* links = nullptr;
};

// An item with `shared` gets no write bits, whatever its ShareRole. One that is only linked is
// neither opened nor weighed.
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

  // All is borrowed.
  StagedItem(const std::string& source, Patience patience, ItemSharing::Asked shared,
             std::size_t index, const StageContext& context);

  // The work of run().
  virtual Status stage() = 0;
  [[nodiscard]] virtual const char* noun() const = 0;         // for the log: "dataset"
  [[nodiscard]] virtual std::uint32_t kind_flag() const = 0;  // of the record
  [[nodiscard]] virtual std::string short_name() const = 0;   // of the record
  [[nodiscard]] virtual std::string variable_name() const = 0;

  // Looks at sources_, which must be there, and learns how large they are.
  Status measure();
  // An item that begins at once goes on with what is open; of others it would only take memory.
  void keep_open(Piece piece);
  Result<Piece> open_piece(const std::string& source, const Unpacking& wanted);
  Result<bool> keep_placed(const std::string& destination);
  Status place(int from_fd, const char* name, const std::string& destination);
  Status protect(const std::string& destination);
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
  const StageContext& context_;
  Meter meter_;
  ItemRelay relay_;
  Space space_;
  std::vector<std::string> sources_;
  std::uint64_t source_bytes_ = 0;
  bool is_relayed_ = false;     // as far as is known
  std::optional<Piece> first_;  // of the sources, when it is open already
  Need need_;
  std::atomic<std::uint64_t> source_mark_ = 0;  // of the record

  ItemSharing sharing_;
  ItemProgress progress_;

 private:
  Status link();
  Status show(const std::string& destination);
  void fill_amounts(ItemRecord& record) const;
  [[nodiscard]] std::uint32_t flags() const;
};

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

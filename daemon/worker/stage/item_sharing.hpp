// ItemSharing: what the daemon has decided for a staged item that asks to be shared, and what has
// become of that (common/wire/worker_order.hpp). For any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "common/result.hpp"
#include "common/wire/status_file.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/worker/share/share_key.hpp"

namespace nodestage {

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

class ItemSharing {
 public:
  enum class Asked { no, yes };  // the key `shared`

  ItemSharing(Asked asked, std::size_t item, const StageOrder& order);  // borrows the order

  [[nodiscard]] bool is_asked() const { return asked_ == Asked::yes; }
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
  void set_linked();

  // The job uses the item at path().
  [[nodiscard]] bool is_linked() const;
  // Another process has staged it there for this job; decided() says how much.
  [[nodiscard]] bool was_staged_for_it() const;
  [[nodiscard]] const SharedItem& decided() const { return *decided_; }
  // It was staged to be kept there, and can be.
  [[nodiscard]] bool is_whole() const;
  [[nodiscard]] std::string note() const;

 private:
  const StageOrder& order_;
  const Asked asked_;
  const SharedItem* const decided_;  // null for an item without `shared`

  mutable std::mutex mutex_;  // over what follows
  bool is_whole_ = false;
  bool is_linked_ = false;
  std::string unkept_ = "an earlier try of this job staged it";  // why it is not whole
};

}  // namespace nodestage

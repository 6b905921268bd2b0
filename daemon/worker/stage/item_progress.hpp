// ItemProgress: what a staged item has done so far, for its record in the status file. For any
// thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "common/result.hpp"
#include "common/wire/status_file.hpp"

namespace nodestage {

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

}  // namespace nodestage

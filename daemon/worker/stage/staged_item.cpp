#include "daemon/worker/stage/staged_item.hpp"

#include <sys/stat.h>

#include <algorithm>

#include "common/os/wall_clock.hpp"
#include "common/text/human.hpp"
#include "daemon/worker/basis/log.hpp"
#include "daemon/worker/read/source.hpp"

namespace nodestage {

StagedItem::StagedItem(const std::string& source, Patience patience, std::size_t index,
                       const StageContext& context)
    : source_(source),
      patience_(patience),
      index_(index),
      context_(context),
      meter_(context.rate, context.stop),
      space_(k_worker_directory_fd, context.allowance) {}

Status StagedItem::measure() {
  bool all_files = true;
  for (const auto& source : sources_) {
    TRY_ASSIGN(const struct stat info, examine_source(source));
    source_bytes_ += static_cast<std::uint64_t>(info.st_size);
    all_files = all_files && S_ISREG(info.st_mode);
  }
  meter_.bytes_total = all_files ? source_bytes_ : 0;
  return {};
}

void StagedItem::keep_open(Piece piece) {
  if (index_ < context_.at_once) {
    first_ = std::move(piece);
  } else {
    meter_.bytes_read = 0;
  }
}

Result<Piece> StagedItem::open_piece(const std::string& source, const Unpacking& wanted) {
  if (first_ && source == sources_.front()) return *std::exchange(first_, std::nullopt);
  return Piece::open(source, wanted, meter_, context_.limits);
}

Status StagedItem::run() {
  {
    const std::lock_guard lock(mutex_);
    state_ = ItemState::working;
    begun_ = Clock::now();
  }
  set_note("");
  return stage();
}

bool StagedItem::keep_placed(const std::string& destination) {
  if (!context_.workspace.is_placed(destination)) return false;
  add_note("already in place");
  return true;
}

void StagedItem::end(const Status& status) {
  context_.workspace.remove_item(index_);
  first_.reset();
  space_.settle(need_.expected);
  const std::lock_guard lock(mutex_);
  ended_ = Clock::now();
  state_ = status ? ItemState::done : ItemState::failed;
  if (!status) note_ = status.error().text();
  if (status || !is_stopped(status.error())) {
    log_line(noun() + (" " + source_) + (status ? ": done" : ": failed: " + status.error().text()));
  }
}

void StagedItem::leave_out(const Error& refusal) {
  need_ = {};
  end(refusal);
}

bool StagedItem::is_needed() const {
  return patience_ == Patience::needed && context_.order.on_failure == OnFailure::fail;
}

std::optional<StagedItem::Variable> StagedItem::variable() const {
  const std::lock_guard lock(mutex_);
  if (destination_.empty() || state_ == ItemState::failed) return std::nullopt;
  return Variable{variable_name(), destination_path()};
}

// The job directory while nothing more is known.
std::string StagedItem::destination_path() const {
  const bool is_whole = destination_.empty() || destination_ == k_job_directory;
  return context_.order.directory + (is_whole ? "" : "/" + destination_);
}

ItemRecord StagedItem::record() const {
  const std::lock_guard lock(mutex_);
  ItemRecord record{};
  record.state = static_cast<std::uint32_t>(state_);
  record.flags = (is_async() ? k_item_async : 0) |
                 (is_needed() || is_async() ? 0 : k_item_optional) | kind_flag();
  tell_amounts(record);
  if (begun_) tell_times(record);
  tell_texts(record);
  return record;
}

void StagedItem::tell_amounts(ItemRecord& record) const {
  record.bytes_total = meter_.bytes_total;
  record.bytes_read = meter_.bytes_read;
  // Some parts of a zip or 7z file are read twice.
  if (record.bytes_total > 0) record.bytes_read = std::min(record.bytes_read, record.bytes_total);
  record.bytes_written = meter_.bytes_written;
  record.files = meter_.files;
}

void StagedItem::tell_times(ItemRecord& record) const {
  const auto spent = ended_.value_or(Clock::now()) - *begun_;
  record.elapsed_ms = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(spent).count());
  record.begun_ms = wall_ms(*begun_);
  // Something is read before, to learn the need: of a small source that is all.
  const Clock::time_point read_to = meter_.last_read;
  if (read_to != Clock::time_point()) record.read_to_ms = wall_ms(std::max(read_to, *begun_));
  if (ended_) record.ended_ms = wall_ms(*ended_);
}

void StagedItem::tell_texts(ItemRecord& record) const {
  const std::string kind =
      sources_.size() > 1 ? human_count(sources_.size()) + " × " + kind_ : kind_;
  set_field(record.what, kind_.empty() ? kind_ : kind);
  set_field(record.source, shortened(source_, sizeof record.source - 1));
  set_field(record.destination, shortened(destination_path(), sizeof record.destination - 1));
  set_field(record.name, short_name());
  set_field(record.note, shortened(note_, sizeof record.note - 1));
}

void StagedItem::set_note(const std::string& text) {
  const std::lock_guard lock(mutex_);
  note_ = text;
}

void StagedItem::add_note(const std::string& text) {
  const std::lock_guard lock(mutex_);
  if (text.empty() || note_.find(text) != std::string::npos) return;
  if (!note_.empty()) note_ += "; ";
  note_ += text;
}

void StagedItem::set_kind(const std::string& kind) {
  const std::lock_guard lock(mutex_);
  kind_ = kind_.empty() || kind_ == kind ? kind : "sources";
}

void StagedItem::set_destination(const std::string& destination) {
  const std::lock_guard lock(mutex_);
  destination_ = destination;
}

}  // namespace nodestage

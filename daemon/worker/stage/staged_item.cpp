#include "daemon/worker/stage/staged_item.hpp"

#include <sys/stat.h>

#include <algorithm>

#include "common/os/wall_clock.hpp"
#include "common/text/human.hpp"
#include "daemon/worker/basis/log.hpp"
#include "daemon/worker/read/source.hpp"

namespace nodestage {
namespace {

constexpr const char* k_read_only = "; it is read-only";  // so that EACCES is no riddle

}  // namespace

const SharedItem* decided_for(const StageOrder& order, std::size_t item) {
  for (const auto& shared : order.shared) {
    if (shared.item == item) return &shared;
  }
  return nullptr;
}

StagedItem::StagedItem(const std::string& source, Patience patience, Sharing sharing,
                       std::size_t index, const StageContext& context)
    : source_(source),
      patience_(patience),
      sharing_(sharing),
      index_(index),
      context_(context),
      decided_(sharing == Sharing::asked ? decided_for(context.order, index) : nullptr),
      meter_(context.rate, context.stop),
      relay_(context.relays, meter_),
      space_(k_worker_directory_fd, context.allowance) {}

Status StagedItem::measure() {
  bool all_files = true;
  is_relayed_ = true;
  for (const auto& source : sources_) {
    TRY_ASSIGN(const struct stat info, examine_source(source));
    source_bytes_ += static_cast<std::uint64_t>(info.st_size);
    all_files = all_files && S_ISREG(info.st_mode);
    const bool is_expected = context_.relays != nullptr && context_.relays->expect(source, info);
    is_relayed_ = is_relayed_ && is_expected;
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
  const bool is_open = first_ && source == sources_.front();
  auto piece = is_open ? Result<Piece>(*std::exchange(first_, std::nullopt))
                       : Piece::open(source, wanted, meter_, context_.limits);
  if (piece) piece->relay_by(relay_);
  return piece;
}

Status StagedItem::run() {
  {
    const std::lock_guard lock(mutex_);
    state_ = ItemState::working;
    begun_ = Clock::now();
  }
  set_note("");
  TRY(is_link() ? link() : stage());
  add_note(share_note());
  add_note(relay_.note());
  return {};
}

Result<bool> StagedItem::keep_placed(const std::string& destination) {
  if (!context_.workspace.is_placed(destination)) return false;
  if (is_shared()) TRY(context_.workspace.protect(destination));
  add_note("already in place");
  return true;
}

Status StagedItem::place(int from_fd, const char* name, const std::string& destination) {
  TRY(context_.workspace.place(from_fd, name, destination));
  return is_shared() ? context_.workspace.protect(destination) : Status();
}

Status StagedItem::link() {
  TRY_ASSIGN(const bool is_there, keep_placed(destination_));
  if (!is_there) TRY(context_.workspace.link(decided_->path, destination_));
  const bool is_linked = context_.workspace.is_link_to(destination_, decided_->path);
  const std::lock_guard lock(mutex_);
  is_linked_ = is_linked;
  return {};
}

// The source is looked at as it was when it was identified.
ShareRules StagedItem::share_rules() const {
  return {context_.order, context_.umask, way_of(decided_->key)};
}

std::string StagedItem::judge(const SourceIdentity& before, const SourceIdentity& after) {
  const std::lock_guard lock(mutex_);
  const std::string path = destination_path();
  if (!is_same(before, after) || before.key != decided_->key) {
    unkept_ = before.why_not.empty() ? "it was changed while it was read" : before.why_not;
  } else if (last_part(path) != last_part(decided_->path)) {
    unkept_ = "it has another name here";
  } else if (path.size() >= sizeof ItemRecord::destination) {
    unkept_ = "its path is too long for that";
  } else {
    is_whole_ = true;
  }
  return is_whole_ ? decided_->path : path;
}

std::string StagedItem::share_note() const {
  const std::lock_guard lock(mutex_);
  if (decided_ == nullptr) return {};
  const std::string& note = decided_->note;
  switch (decided_->role) {
    case ShareRole::own:
      return note.empty() ? "" : "not shared: " + note + k_read_only;
    case ShareRole::lead:
      return (is_whole_ ? "shared: kept on this node for your further jobs"
                        : "not shared: " + unkept_) +
             k_read_only;
    case ShareRole::link:
      if (!is_linked_) return {};
      return "shared, already here" + (note.empty() ? "" : " (" + note + ")") + k_read_only;
  }
  return {};
}

void StagedItem::end(const Status& status) {
  context_.workspace.remove_item(index_);
  first_.reset();
  space_.settle(need_.expected);
  // What the job changes from here on has a later ctime than what was staged.
  const std::uint64_t staged_ns = status ? pass_file_time() : 0;
  const std::lock_guard lock(mutex_);
  ended_ = Clock::now();
  staged_ns_ = staged_ns;
  state_ = status ? ItemState::done : ItemState::failed;
  if (!status) note_ = status.error().text();
  is_over_quota_ = !status && status.error().code == EDQUOT;
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
  const bool is_in_cache = is_linked_ || (is_whole_ && !is_async());
  return Variable{variable_name(), is_in_cache ? decided_->path : destination_path()};
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
                 (is_needed() || is_async() ? 0 : k_item_optional) | kind_flag() | share_flags();
  tell_amounts(record);
  record.staged_ns = staged_ns_;
  if (begun_) tell_times(record);
  tell_texts(record);
  return record;
}

std::uint32_t StagedItem::share_flags() const {
  const bool is_done = state_ == ItemState::done;
  return (is_shared() ? k_item_shared : 0) | (is_over_quota_ ? k_item_over_quota : 0) |
         (is_done && is_whole_ ? k_item_whole : 0) | (is_done && is_linked_ ? k_item_linked : 0);
}

void StagedItem::tell_amounts(ItemRecord& record) const {
  record.bytes_total = meter_.bytes_total;
  record.bytes_read = meter_.bytes_read;
  // Some parts of a zip or 7z file are read twice.
  if (record.bytes_total > 0) record.bytes_read = std::min(record.bytes_read, record.bytes_total);
  record.bytes_written = meter_.bytes_written;
  record.files = meter_.files;
  if (!relay_.was_asked()) return;
  record.bytes_from_storage = meter_.from_storage;
  record.bytes_from_nodes = meter_.from_nodes;
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

#include "daemon/worker/stage/staged_item.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "common/os/wall_clock.hpp"
#include "common/text/human.hpp"
#include "common/wire/status_file.hpp"
#include "daemon/worker/basis/fault.hpp"
#include "daemon/worker/read/source.hpp"

namespace nodestage {
namespace {

using Lock = std::lock_guard<std::mutex>;

}  // namespace

void ItemProgress::begin() {
  const Lock lock(mutex_);
  state_ = ItemState::working;
  begun_ = Clock::now();
  note_.clear();
}

void ItemProgress::end(const Status& status) {
  // What the job changes from here on has a later ctime than what was staged.
  const std::uint64_t staged_ns = status ? pass_file_time() : 0;
  const Lock lock(mutex_);
  ended_ = Clock::now();
  staged_ns_ = staged_ns;
  state_ = status ? ItemState::done : ItemState::failed;
  if (!status) note_ = status.error().text();
  is_over_quota_ = !status && status.error().code == EDQUOT;
}

void ItemProgress::set_note(const std::string& text) {
  const Lock lock(mutex_);
  note_ = text;
}

void ItemProgress::add_note(const std::string& text) {
  const Lock lock(mutex_);
  if (text.empty() || note_.find(text) != std::string::npos) return;
  if (!note_.empty()) note_ += "; ";
  note_ += text;
}

void ItemProgress::set_kind(const std::string& kind) {
  const Lock lock(mutex_);
  kind_ = kind_.empty() || kind_ == kind ? kind : "sources";
}

void ItemProgress::set_destination(const std::string& destination) {
  const Lock lock(mutex_);
  destination_ = destination;
}

std::string ItemProgress::destination() const {
  const Lock lock(mutex_);
  return destination_;
}

ItemState ItemProgress::state() const {
  const Lock lock(mutex_);
  return state_;
}

void ItemProgress::fill(ItemRecord& record, Clock::time_point read_to, std::size_t sources) const {
  const Lock lock(mutex_);
  record.state = static_cast<std::uint32_t>(state_);
  if (is_over_quota_) record.flags |= k_item_over_quota;
  record.staged_ns = staged_ns_;
  const bool is_counted = sources > 1 && !kind_.empty();
  set_field(record.what, is_counted ? human_count(sources) + " × " + kind_ : kind_);
  set_field(record.note, shortened(note_, sizeof record.note - 1));
  if (!begun_) return;
  record.begun_ms = wall_ms(*begun_);
  record.elapsed_ms = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(ended_.value_or(Clock::now()) - *begun_)
          .count());
  // Something is read before, to learn the need: of a small source that is all.
  if (read_to != Clock::time_point()) record.read_to_ms = wall_ms(std::max(read_to, *begun_));
  if (ended_) record.ended_ms = wall_ms(*ended_);
}

namespace {

// So that EACCES is no riddle.
constexpr const char* k_read_only = "; it is read-only";
constexpr const char* k_spread = "; its files are read-only, and its directories are the job's own";

}  // namespace

const SharedItem* decided_for(const StageOrder& order, std::size_t item) {
  for (const auto& shared : order.shared) {
    if (shared.item == item) return &shared;
  }
  return nullptr;
}

ItemSharing::ItemSharing(Asked asked, std::size_t item, const StageOrder& order)
    : order_(order),
      asked_(asked),
      decided_(asked != Asked::no ? decided_for(order, item) : nullptr) {}

ShareRules ItemSharing::rules(unsigned umask, const std::atomic<bool>& stop) const {
  return {order_, umask, way_of(decided_->key), &stop};
}

std::string ItemSharing::judge(const SourceIdentity& before, const SourceIdentity& after,
                               const std::string& path) {
  const Lock lock(mutex_);
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

std::string ItemSharing::note() const {
  const Lock lock(mutex_);
  if (!is_asked()) return {};
  const bool is_plain = asked_ != Asked::mounted;  // of a mount, its item says so
  const std::string access = is_spread() ? k_spread : is_read_only() && is_plain ? k_read_only : "";
  if (decided_ == nullptr)
    return "not shared: its turn to be looked at did not come in time" + access;
  const std::string& note = decided_->note;
  switch (decided_->role) {
    case ShareRole::own:
      return note.empty() ? "" : "not shared: " + note + access;
    case ShareRole::lead:
      return (is_whole_ ? "shared: kept on this node for your further jobs" +
                              (note.empty() ? "" : ", " + note)
                        : "not shared: " + unkept_) +
             access;
    case ShareRole::link:
      if (!is_linked_) return {};
      if (was_staged_for_it()) return "shared: " + note + access;
      return "shared, already here" + (note.empty() ? "" : " (" + note + ")") + access;
  }
  return {};
}

StagedItem::StagedItem(const std::string& source, Patience patience, ItemSharing::Asked shared,
                       std::size_t index, const StageContext& context, std::size_t image)
    : source_(source),
      patience_(patience),
      index_(index),
      image_(context.order.for_readers ? k_no_image : image),
      context_(context),
      meter_(context.rate, context.stop),
      relay_(context.relays, meter_),
      space_(context.dir_fd, context.allowance),
      sharing_(shared, index, context.order) {}

Status StagedItem::measure(const std::vector<std::string>* parts) {
  const auto& files = parts != nullptr ? *parts : sources_;
  bool all_files = true;
  std::vector<struct stat> infos;
  for (const auto& source : files) {
    TRY_ASSIGN(infos.emplace_back(), examine_source(source));
    source_bytes_ += static_cast<std::uint64_t>(infos.back().st_size);
    all_files = all_files && S_ISREG(infos.back().st_mode);
  }
  is_relayed_ = true;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const bool is_expected =
        context_.relays != nullptr && may_relay(S_ISDIR(infos[i].st_mode)) &&
        context_.relays->expect(files[i], infos[i], parts != nullptr ? source_bytes_ : 0);
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
  if (piece && may_relay(piece->is_directory())) piece->relay_by(relay_);
  return piece;
}

// What another node has copied of a directory may be older than what this item's key says of it.
// And in memory there may be no room for a second try.
bool StagedItem::may_relay(bool is_directory) const {
  return !is_of_node_ && (!is_directory || (!sharing_.is_lead() && !is_in_memory()));
}

Status StagedItem::run() {
  progress_.begin();
  TRY(sharing_.is_link() ? link() : stage());
  if (is_in_memory()) progress_.add_note("in memory");
  progress_.add_note(sharing_.note());
  progress_.add_note(relay_.note());
  return {};
}

void StagedItem::end(const Status& status) {
  if (!status && is_mounted()) give_up_mount();
  context_.workspace.remove_item(index_);
  first_.reset();
  space_.settle(need_.expected);
  progress_.end(status);
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
  if (progress_.destination().empty() || progress_.state() == ItemState::failed)
    return std::nullopt;
  if (is_mounted())  // an image that the job does not wait for has its link once it is served
    return Variable{variable_name(), is_async() ? destination_path() : mount_path()};
  const bool is_in_cache =
      !sharing_.is_spread() && (sharing_.is_linked() || (sharing_.is_whole() && !is_async()));
  if (is_in_cache) return Variable{variable_name(), sharing_.path()};
  return Variable{variable_name(), path_in(context_.directory)};
}

std::string StagedItem::destination_path() const { return path_in(context_.order.directory); }

std::string StagedItem::path_in(const std::string& directory) const {
  const std::string destination = progress_.destination();
  const bool is_whole = destination.empty() || destination == k_job_directory;
  return directory + (is_whole ? "" : "/" + destination);
}

ItemRecord StagedItem::record() const {
  ItemRecord record{};
  record.flags = flags();
  fill_amounts(record);
  progress_.fill(record, meter_.last_read, sources_.size());
  if (state_of(record) == ItemState::done)
    record.flags |= (sharing_.is_whole() ? k_item_whole : 0) |
                    (sharing_.is_linked() && !sharing_.was_staged_for_it() ? k_item_linked : 0);
  set_field(record.source, shortened(source_, sizeof record.source - 1));
  set_field(record.destination, shortened(destination_path(), sizeof record.destination - 1));
  set_field(record.name, short_name());
  record.source_mark = source_mark_;
  if (sharing_.is_linked() && sharing_.was_staged_for_it()) {
    record.files = sharing_.decided().files;
    record.bytes_written = sharing_.decided().bytes;
    record.elapsed_ms = sharing_.decided().elapsed_ms;
  }
  return record;
}

std::uint32_t StagedItem::flags() const {
  return (is_async() ? k_item_async : 0) | (is_needed() || is_async() ? 0 : k_item_optional) |
         kind_flag() | (sharing_.is_asked() ? k_item_shared : 0) |
         (is_mounted() || sharing_.is_spread() ? k_item_spread : 0);
}

void StagedItem::fill_amounts(ItemRecord& record) const {
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

namespace {

std::string subject_of(const std::vector<StagedItem*>& items, const Need& sum) {
  const std::size_t others = items.size() - 1;
  std::string subject = items.front()->source();
  if (others == 0) {
    subject += ": needs";
  } else {
    subject += others == 1 ? " and another dataset together need"
                           : " and " + human_count(others) + " other datasets together need";
  }
  return sum.least.bytes < sum.expected.bytes ? subject + " at least" : subject;
}

Status ask_for(const std::vector<StagedItem*>& items, std::uint64_t spare, Allowance& allowance) {
  Need sum{{spare, 0}, {spare, 0}};
  for (const StagedItem* item : items) {
    sum = {sum.expected + item->need().expected, sum.least + item->need().least};
  }
  if (sum.expected == Amount{}) return {};
  return allowance.ask(sum, items.empty() ? "" : subject_of(items, sum),
                       spare > 0 ? Allowance::Spare::included : Allowance::Spare::none);
}

// 0 for what is needed, which is never left out.
std::uint64_t spare_bytes(const StagedItem* item) {
  return item->is_needed() ? 0 : 1 + item->need().expected.bytes;
}

}  // namespace

Result<std::uint64_t> admit_items(std::vector<StagedItem*>& items, const Spare& spare,
                                  Allowance& allowance) {
  if (spare.wanted > 0 && ask_for(items, spare.wanted, allowance)) return spare.wanted;
  if (spare.least < spare.wanted && ask_for(items, spare.least, allowance)) return spare.least;
  while (!items.empty()) {
    Status admitted = ask_for(items, 0, allowance);
    if (admitted) return std::uint64_t{0};
    const auto largest = std::max_element(
        items.begin(), items.end(),
        [](const StagedItem* a, const StagedItem* b) { return spare_bytes(a) < spare_bytes(b); });
    if ((*largest)->is_needed()) return admitted.error();
    (*largest)->leave_out(admitted.error());
    items.erase(largest);
  }
  return std::uint64_t{0};
}

namespace {

constexpr char k_no_room[] = "the local disk has no room for that";

}  // namespace

SpoolSpace::SpoolSpace(RelayedSources* relays, Allowance& allowance, const std::atomic<bool>& stop)
    : relays_(relays),
      allowance_(allowance),
      stop_(stop),
      space_(k_worker_directory_fd, allowance) {}

Status SpoolSpace::admit(std::vector<StagedItem*>& items, std::size_t at_once) {
  using Size = RelayedSources::SpoolSize;
  const auto bytes_of = [this](Size size) {
    return relays_ != nullptr ? in_blocks(relays_->spool_bytes(size)) : 0;
  };
  const Spare spare{bytes_of(Size::whole), bytes_of(Size::least)};
  TRY_ASSIGN(claimed_, admit_items(items, spare, allowance_));
  if (relays_ == nullptr) return {};
  if (claimed_ == 0 && spare.wanted > 0) {
    relays_->refuse(k_no_room);
    return {};
  }
  relays_->begin(at_once, claimed_ < spare.wanted ? Size::least : Size::whole);
  if (claimed_ > 0) allowance_.set_spare([this] { return relays_->turn_off(k_no_room, stop_); });
  return {};
}

// Beyond the claim, the spool is what the data could take instead: it is not counted.
void SpoolSpace::count() {
  if (relays_ != nullptr) relays_->beat();
  if (claimed_ == 0) return;
  const std::uint64_t now = std::min(relays_->spool_taken(), claimed_);
  if (now <= counted_) return;
  const Amount grown{now - counted_, 0};
  counted_ = now;
  if (const Status taken = space_.take(grown); !taken) log_line(taken.error().text());
  space_.wrote(grown);
}

void SpoolSpace::end() {
  if (relays_ == nullptr) return;
  relays_->end();
  count();
  space_.settle({claimed_, 0});
  claimed_ = 0;
}

}  // namespace nodestage

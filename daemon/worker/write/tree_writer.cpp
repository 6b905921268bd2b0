#include "daemon/worker/write/tree_writer.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

namespace nodestage {
namespace {

constexpr std::size_t k_first_slots = std::size_t{1} << 12U;
constexpr std::uint32_t k_last_generation = std::numeric_limits<std::uint32_t>::max();

constexpr std::size_t k_links = std::size_t{1} << 15U;        // the maximum that waits
constexpr std::size_t k_link_bytes = std::size_t{16} << 20U;  // and of their names
constexpr std::size_t k_in_task = 64;
constexpr std::size_t k_special_names = std::size_t{1} << 16U;  // the maximum that is remembered

NewEntry new_entry_of(const Entry& entry, std::string_view name, std::uint64_t number) {
  NewEntry made;
  made.name = name;
  made.kind = entry.kind;
  made.mtime = entry.mtime;
  made.size =
      entry.kind == Entry::Kind::file || entry.kind == Entry::Kind::hard_link ? entry.size : 0;
  made.link = entry.link;
  if (entry.kind == Entry::Kind::file) made.xattrs = entry.xattrs;
  made.number = number;
  return made;
}

}  // namespace

std::uint64_t SeenNames::hash(std::string_view name) { return std::hash<std::string_view>()(name); }

// Returns the slot of the name, or the free slot where it belongs.
std::size_t SeenNames::place_of(std::uint64_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = hash & mask;
  while (slots_[at].generation != 0 && slots_[at].hash != hash) at = (at + 1) & mask;
  return at;
}

SeenNames::Found SeenNames::find(std::uint64_t hash) const {
  if (slots_.empty()) return {};
  const Slot& slot = slots_[place_of(hash)];
  if (slot.generation == 0) return {};
  return {slot.is_directory ? Kind::directory : Kind::other, slot.generation == generation_};
}

void SeenNames::put(std::uint64_t hash, Kind kind) {
  if (2 * (used_ + 1) > slots_.size()) grow();
  Slot& slot = slots_[place_of(hash)];
  if (slot.generation == 0) ++used_;
  slot = {hash, generation_, kind == Kind::directory};
}

void SeenNames::grow() {
  const std::size_t size = slots_.empty() ? k_first_slots : 2 * slots_.size();
  const auto before = std::exchange(slots_, std::vector<Slot>(size));
  for (const Slot& slot : before) {
    if (slot.generation != 0) slots_[place_of(slot.hash)] = slot;
  }
}

void SeenNames::settle() {
  if (generation_ < k_last_generation) ++generation_;  // at the last generation it is full
}

bool SeenNames::is_full() const { return used_ >= most_ || generation_ >= k_last_generation; }

void SeenNames::forget() {
  slots_.assign(slots_.size(), {});
  used_ = 0;
  generation_ = 1;
  has_forgotten_ = true;
}

TreeWriter::TreeWriter(int root_fd, mode_t umask, Meter& meter, Space& space,
                       TreeWriterLimits limits)
    : umask_(umask),
      special_(limits.special),
      writes_(limits.writes),
      meter_(meter),
      space_(space),
      rules_{limits.escaping, limits.masked},
      crew_({root_fd, meter, space, rules_}, {limits.threads, limits.queued}),
      maker_({root_fd, meter, space, crew_.quit(), rules_}),
      seen_(limits.names) {
  if (is_read_only()) note_directory("");
}

Status TreeWriter::failed(Error error, std::string entry) {
  failed_entry_ = std::move(entry);
  return error;
}

Status TreeWriter::outcome() {
  if (!crew_.has_failed()) return {};
  WriterFault fault = crew_.fault();
  return failed(std::move(fault.error), std::move(fault.entry));
}

Status TreeWriter::add(const Entry& entry, const EntryData& from, std::uint64_t id) {
  TRY(add(entry));
  if (!new_ || new_->kind != Entry::Kind::file) return {};
  new_->from = &from;
  new_->id = id;
  return {};
}

Status TreeWriter::add(const Entry& entry) {
  TRY(complete());
  TRY(meter_.check());
  TRY(outcome());
  ++number_;
  if (leave_out(entry)) return {};
  if (entry.name.empty()) {
    if (entry.kind != Entry::Kind::directory) return fault(EINVAL, "an entry without a name", "");
    directories_[""] = attributes_of(entry);
    return {};
  }
  const SplitPath split = split_path(entry.name);
  TRY(enter(split.parent));
  const std::uint64_t hash = SeenNames::hash(entry.name);
  const SeenNames::Found found = seen_.find(hash);
  if (entry.kind == Entry::Kind::hard_link && entry.link == entry.name) {
    if (found.kind == SeenNames::Kind::nothing && !seen_.has_forgotten()) {
      return fault(ENOENT, "is a hard link to itself, and nothing before it has that name",
                   "Make the archive again without such an entry");
    }
    ++meter_.files;
    if (entry.size > 0) begin_new(entry, split.name);
    return {};
  }
  if (entry.kind == Entry::Kind::directory) {
    TRY(add_directory(entry, found));
    return see(hash, SeenNames::Kind::directory);
  }
  TRY(claim_name(entry.name, hash, found));
  begin_new(entry, split.name);
  return {};
}

void TreeWriter::begin_new(const Entry& entry, std::string_view name) {
  new_ = new_entry_of(entry, name, number_);
  new_->mode = mode_of(entry, S_IFREG);
  if (entry.kind == Entry::Kind::file) unreadable_.look_at(entry.name, new_->mode | S_IFREG);
}

// Leaves out special files that are not kept, and links to them; set-id bits are only counted.
bool TreeWriter::leave_out(const Entry& entry) {
  const bool keeps = special_ == Special::keep;
  if (!keeps && entry.kind == Entry::Kind::file && (entry.mode & (S_ISUID | S_ISGID)) != 0)
    ++left_out_.set_ids;
  const bool is_special =
      entry.kind == Entry::Kind::other || (entry.kind == Entry::Kind::fifo && !keeps) ||
      (entry.kind == Entry::Kind::hard_link && entry.size == 0 && !special_names_.empty() &&
       special_names_.contains(SeenNames::hash(entry.link)));
  if (is_special) ++left_out_.specials;
  if (is_special && special_names_.size() < k_special_names) {
    special_names_.insert(SeenNames::hash(entry.name));
  } else if (!special_names_.empty()) {
    special_names_.erase(SeenNames::hash(entry.name));
  }
  return is_special;
}

// Parents of an entry that are in flight and not directories must be complete first: the entry's
// fault is then the same as if one thread had made everything.
Status TreeWriter::enter(std::string_view parent) {
  if (has_parent_ && parent == parent_) return {};
  bool is_settled = false;
  for (std::size_t end = 0; end < parent.size() && !is_settled;) {
    end = std::min(parent.find('/', end + 1), parent.size());
    const std::uint64_t hash = SeenNames::hash(parent.substr(0, end));
    const SeenNames::Found found = seen_.find(hash);
    is_settled = found.kind == SeenNames::Kind::other && found.in_flight;
    if (is_settled) TRY(settle());
    if (found.kind == SeenNames::Kind::nothing) TRY(see(hash, SeenNames::Kind::directory));
    if (is_read_only() && found.kind != SeenNames::Kind::other)
      note_directory(parent.substr(0, end));
  }
  parent_ = parent;
  has_parent_ = true;
  return {};
}

DirectoryAttributes TreeWriter::attributes_of(const Entry& entry) const {
  return {mode_of(entry, S_IFDIR), entry.mtime, entry.xattrs};
}

// Notes one that has no entry of its own, so far.
void TreeWriter::note_directory(std::string_view path) {
  const mode_t mode = mode_with(writes_, S_IFDIR | (0777U & ~umask_)) & 07777;
  directories_.try_emplace(std::string(path), DirectoryAttributes{mode, {}, {}});
}

// A directory is created by the thread that needs it first, at the latest at the end.
Status TreeWriter::add_directory(const Entry& entry, SeenNames::Found found) {
  const DirectoryAttributes& made = directories_[entry.name] = attributes_of(entry);
  unreadable_.look_at(entry.name, made.mode | S_IFDIR);
  if (found.kind == SeenNames::Kind::directory) return {};
  if (found.kind == SeenNames::Kind::nothing && !seen_.has_forgotten()) return {};
  if (found.in_flight) TRY(settle());
  return maker_.make_directory(
      entry.name, entry.made_of.empty() ? EntryMaker::IfTaken::replace : EntryMaker::IfTaken::fail);
}

// Called before a name is used that may exist already, in any state.
Status TreeWriter::claim_name(const std::string& name, std::uint64_t hash, SeenNames::Found found) {
  const bool is_directory = found.kind == SeenNames::Kind::directory;
  if (is_directory || found.in_flight) TRY(settle());
  if ((is_directory || seen_.has_forgotten()) && directories_.erase(name) + is_directory > 0) {
    maker_.forget_directories();
    ++generation_;
    has_parent_ = false;
  }
  return see(hash, SeenNames::Kind::other);
}

// If there are too many, the others are forgotten.
Status TreeWriter::see(std::uint64_t hash, SeenNames::Kind kind) {
  if (seen_.is_full()) {
    TRY(settle());
    seen_.forget();
    has_parent_ = false;
  }
  seen_.put(hash, kind);
  return {};
}

// Completes the entry that was added last, which has all of its data.
Status TreeWriter::complete() {
  if (!new_) return {};
  if (large_) return complete_large();
  NewEntry entry = *std::exchange(new_, std::nullopt);
  const Slice memory = std::exchange(memory_, {});
  gathered_.reset();
  const std::string path = path_in(parent_, entry.name);
  if (entry.kind == Entry::Kind::hard_link && entry.link == path) return {};  // it exists
  Status put = entry.kind == Entry::Kind::hard_link ? put_link(std::move(entry))
                                                    : put_entry(std::move(entry), memory);
  return put || failed_entry_ ? put : failed(std::move(put.error()), path);
}

Status TreeWriter::put_entry(NewEntry entry, const Slice& memory) {
  Amount amount;
  if (entry.from == nullptr) {
    BlockCount blocks;
    amount = {blocks.add(entry.data.offset, entry.data.data.size()), 1};
    for (const auto& part : entry.more) amount.bytes += blocks.add(part.offset, part.data.size());
    if (entry.kind == Entry::Kind::symlink) amount = amount_of_link(entry.link.size());
    TRY(space_.take(amount));
  }
  if (batch_ && batch_->parent() != parent_) TRY(hand_on());
  if (!batch_) batch_ = std::make_shared<EntryBatch>(parent_, meter_, space_);
  batch_->put(std::move(entry), memory, amount);
  return batch_->is_full() ? hand_on() : Status();
}

// A link to a name in flight waits until all names in flight exist.
Status TreeWriter::put_link(NewEntry entry) {
  const std::uint64_t target = SeenNames::hash(entry.link);
  const std::uint64_t name = SeenNames::hash(path_in(parent_, entry.name));
  if (link_names_.contains(target)) TRY(settle());
  const SeenNames::Found found = seen_.find(target);
  seen_.put(name, SeenNames::Kind::other);
  if (found.kind != SeenNames::Kind::other || !found.in_flight) {
    // The next use of the target's name waits for this link, which fails if there is no target.
    if (found.kind != SeenNames::Kind::directory) seen_.put(target, SeenNames::Kind::other);
    return put_entry(std::move(entry), {});
  }
  TRY(space_.take({0, 1}));
  link_bytes_ += parent_.size() + entry.link.size();
  links_.push_back({parent_, std::move(entry)});
  link_names_.insert(name);
  return links_.size() < k_links && link_bytes_ < k_link_bytes ? Status() : settle();
}

Status TreeWriter::submit(WriterTask task) {
  task.generation = generation_;
  crew_.submit(std::move(task));
  return outcome();
}

Status TreeWriter::hand_on() {
  if (!batch_) return {};
  const std::size_t bytes = batch_->bytes();
  const std::uint64_t near = SeenNames::hash(batch_->parent());
  // The task alone has it: its memory is released before room is reported.
  auto run = [batch = std::exchange(batch_, nullptr)](EntryMaker& maker) {
    return batch->run(maker);
  };
  return submit({.run = std::move(run), .bytes = bytes, .near = near});
}

// Waits until nothing is in flight.
Status TreeWriter::settle() {
  TRY(hand_on());
  crew_.drain();
  TRY(outcome());
  for (std::size_t at = 0; at < links_.size(); at += k_in_task) {
    const auto end =
        links_.begin() + static_cast<std::ptrdiff_t>(std::min(at + k_in_task, links_.size()));
    std::vector<WaitingLink> some(
        std::make_move_iterator(links_.begin() + static_cast<std::ptrdiff_t>(at)),
        std::make_move_iterator(end));
    auto run = [this, some = std::move(some)](EntryMaker& maker) {
      return make_links(some, maker, meter_, space_);
    };
    TRY(submit({.run = std::move(run), .near = at}));
  }
  if (!links_.empty()) crew_.drain();
  links_.clear();
  link_bytes_ = 0;
  link_names_.clear();
  seen_.settle();
  return outcome();
}

Status TreeWriter::finish() {
  TRY(complete());
  TRY(settle());
  return finish_directories();
}

// Finishes the deepest first, all of one depth together: a directory follows its contents.
Status TreeWriter::finish_directories() {
  std::map<std::size_t, std::vector<FilledDirectory>, std::greater<>> by_depth;
  for (const auto& [path, attributes] : directories_) {
    const auto slashes = static_cast<std::size_t>(std::count(path.begin(), path.end(), '/'));
    by_depth[path.empty() ? 0 : slashes + 1].push_back({&path, &attributes});
  }
  for (auto& [depth, directories] : by_depth) {
    TRY(finish_directories(directories));
    crew_.drain();
    TRY(outcome());
  }
  return {};
}

// A few of them are not worth a thread.
Status TreeWriter::finish_directories(const std::vector<FilledDirectory>& directories) {
  for (std::size_t at = 0; at < directories.size(); at += k_in_task) {
    const auto begin = directories.begin() + static_cast<std::ptrdiff_t>(at);
    const std::size_t count = std::min(k_in_task, directories.size() - at);
    std::vector<FilledDirectory> some(begin, begin + static_cast<std::ptrdiff_t>(count));
    if (directories.size() > k_in_task) {
      auto run = [some = std::move(some)](EntryMaker& maker) { return finish_all(some, maker); };
      TRY(submit({.run = std::move(run), .near = at}));
    } else if (auto failure = finish_all(some, maker_)) {
      return failed(std::move(failure->error), std::move(failure->entry));
    }
  }
  return {};
}

}  // namespace nodestage

#include "daemon/worker/archive/nested_entries.hpp"

#include <algorithm>
#include <functional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "common/text/archive_names.hpp"
#include "common/text/human.hpp"
#include "common/text/path_names.hpp"
#include "daemon/worker/archive/archive_entries.hpp"
#include "daemon/worker/archive/container.hpp"
#include "daemon/worker/decode/codec.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_most_extracted = std::size_t{1} << 16;
// What tar writes for no files. More zeros are no tar.
constexpr std::uint64_t k_empty_tar = 10240;
constexpr std::uint64_t k_least_for_threads = std::uint64_t{4} << 20;  // encoded
constexpr std::size_t k_copied_block = std::size_t{256} << 10;
constexpr const char* k_of_a_member =
    "Take that member out of the archive and test it alone. Without nested, it is staged as the "
    "file that it is";
constexpr const char* k_of_an_empty_one =
    "Was it written to a full disk or quota? Make it again, or leave it out: exclude= with its "
    "name";

// With a name like that, zeros are an empty one.
bool is_tar_start(Bytes start, const ArchiveName& name) {
  const Container container = recognise_container(start);
  return is_stream(container) ||
         (container == Container::none && name.container == Container::tar &&
          starts_with_zero_block(start));
}

// Without what names the file, which is not there to be tested.
std::string without_commands(std::string advice, const std::string& member) {
  for (const std::string_view mark : {"Test it with: ", "Compare it with the original: "}) {
    const std::size_t at = advice.find(mark);
    if (at != std::string::npos) advice.erase(at, advice.find('\n', at) - at);
  }
  if (advice.find(shell_word(shown(member))) != std::string::npos) return {};
  while (advice.ends_with(' ') || advice.ends_with('\n')) advice.pop_back();
  return advice;
}

// An inner archive.
struct Level {
  std::string member;  // its name, with those of the archives around it
  std::string prefix;  // of its entries' names: the directory, with a slash
  std::unique_ptr<MemberBytes> bytes;
  std::unique_ptr<Decoder> decoder;  // of a tar
  std::unique_ptr<Source> file;      // of any other
  std::unique_ptr<Entries> entries;  // the first to go
  bool is_wanted = true;             // what is in it
  bool has_entries = false;
  bool has_threads = false;  // that decode it
};

// Counts things, and keeps the name of the first.
struct FirstOf {
  std::uint64_t count = 0;
  std::string first;

  void add(const std::string& name) {
    if (count++ == 0) first = name;
  }
  // " (and 2 more)", or "".
  [[nodiscard]] std::string others(const std::string& before, const std::string& behind) const {
    return count > 1 ? " (" + before + human_count(count - 1) + behind + ")" : "";
  }
};

class NestedEntries final : public Entries {
 public:
  NestedEntries(std::unique_ptr<Entries> outer, const Source& source, const NestedRules& rules)
      : path_(source.path()),
        meter_(source.meter()),
        bounds_(source.size(), rules.rules),
        rules_(rules),
        outer_(std::move(outer)) {
    copies_.resize(rules.levels);
    pools_.resize(rules.levels);
  }
  NestedEntries(const NestedEntries&) = delete;
  NestedEntries& operator=(const NestedEntries&) = delete;
  // The innermost goes first: its threads read the one around it.
  ~NestedEntries() override {
    while (!levels_.empty()) levels_.pop_back();
  }

  Result<Entry*> next() override;
  Result<Block> read() override;
  [[nodiscard]] const EntryData* data() const override {
    return levels_.empty() && !member_ ? outer_->data() : nullptr;
  }
  [[nodiscard]] std::uint64_t id() const override { return outer_->id(); }
  [[nodiscard]] std::string note() const override;
  [[nodiscard]] const ZipIndex* contents() const override { return outer_->contents(); }

 private:
  [[nodiscard]] Entries& top() const { return levels_.empty() ? *outer_ : *levels_.back().entries; }
  Status place(Entry& entry) const;
  [[nodiscard]] Status check_link(const Entry& entry) const;
  Result<bool> open(const Entry& entry);
  void remember(const Level& level, const std::optional<std::string>& stripped);
  [[nodiscard]] std::optional<std::string> stripped(const std::string& name) const;
  [[nodiscard]] bool is_wanted_file(const std::string& name) const;
  Result<bool> open_level(Level& level, const ArchiveName& name);
  Result<bool> open_stream(Level& level, std::unique_ptr<Decoding> from, Coding coding);
  Result<bool> open_compressed(Level& level, Coding coding, const ArchiveName& name);
  Result<bool> open_file(Level& level, Container container, bool may_be_checkpoint);
  [[nodiscard]] bool is_for_threads(const Level& level) const;
  static bool come_as_copied(Level& level);
  Status close();
  Status check_empty(const Level& level) const;
  Status empty_copy();
  [[nodiscard]] bool has_zip_below() const;
  [[nodiscard]] bool is_of_outer(const Error& error) const;
  [[nodiscard]] Error named(Error error, std::size_t depth) const;
  [[nodiscard]] Error of_member(Error error, const std::string& member) const;

  const std::string path_;
  const Meter& meter_;
  const EntryLimits bounds_;
  const NestedRules rules_;
  RateLimit unlimited_{-1};
  Meter uncounted_{unlimited_, meter_.stop()};  // copies of members are no source

  const std::unique_ptr<Entries> outer_;
  std::vector<MemberCopy> copies_;                  // of each level
  std::vector<std::unique_ptr<BufferPool>> pools_;  // likewise
  std::vector<Level> levels_;                       // that are open
  std::unique_ptr<MemberBytes> member_;             // the current entry, if it was looked at
  Entry directory_;                                 // that an inner archive becomes
  bool is_at_directory_ = false;
  // Hashes of members' names, and of their directories' names, the first ones.
  std::unordered_set<std::size_t> extracted_;
  std::unordered_set<std::size_t> directories_;
  std::uint64_t copied_ = 0;   // bytes of members
  FirstOf united_;             // members, with the directory of another one
  FirstOf files_as_they_are_;  // named like archives
  FirstOf noted_;              // the notes of inner archives
};

Result<Entry*> NestedEntries::next() {
  if (std::exchange(member_, nullptr) != nullptr) TRY(empty_copy());
  is_at_directory_ = false;
  for (;;) {
    TRY(meter_.check());
    auto next = top().next();
    if (!next) return named(std::move(next.error()), levels_.size());
    if (*next == nullptr && levels_.empty()) return *next;
    if (*next == nullptr) {
      TRY(close());
      continue;
    }
    Entry& entry = **next;
    if (!levels_.empty()) levels_.back().has_entries = true;
    TRY(place(entry));
    TRY(check_link(entry));
    TRY_ASSIGN(const bool is_archive, open(entry));
    if (!is_archive) return &entry;
    is_at_directory_ = true;
    return &directory_;
  }
}

// Puts the directory of its archive before an inner entry's names. One with ".." keeps it, and is
// refused as it would be in the outer archive.
Status NestedEntries::place(Entry& entry) const {
  if (levels_.empty()) return {};
  const Level& level = levels_.back();
  // Whoever takes the entry cleans its name; here it only matters whether nothing would be left.
  const bool may_be_empty = entry.name.find_first_not_of("./") == std::string::npos;
  if (may_be_empty && entry.kind != Entry::Kind::directory) {
    const auto cleaned = clean_entry_name(entry.name);
    if (cleaned && cleaned->empty())
      return of_member({EINVAL, "contains an entry without a name"}, level.member);
  }
  entry.name.insert(0, level.prefix);
  if (entry.kind == Entry::Kind::hard_link && !entry.link.empty())
    entry.link.insert(0, level.prefix);
  return {};
}

// The file that it is a second name of was not written.
Status NestedEntries::check_link(const Entry& entry) const {
  if (entry.kind != Entry::Kind::hard_link || extracted_.empty()) return {};
  const auto link = clean_entry_name(entry.link);
  if (!link || !extracted_.contains(std::hash<std::string>()(*link))) return {};
  return of_member(fault(0, "is a hard link to '" + shown(*link) + "', which nested extracts",
                         "Make the archive again without hard links (tar --hard-dereference), or "
                         "leave out nested"),
                   entry.name);
}

Result<Block> NestedEntries::read() {
  TRY(meter_.check());
  if (is_at_directory_) return Block{};
  if (member_) return member_->block();
  auto block = top().read();
  if (!block) return named(std::move(block.error()), levels_.size());
  return block;
}

// Opens the current entry of the top if it is an archive, and sets the directory for it.
Result<bool> NestedEntries::open(const Entry& entry) {
  const std::size_t depth = levels_.size();
  if (entry.kind != Entry::Kind::file || depth == rules_.levels) return false;
  const std::size_t stem = nested_stem(entry.name);
  if (stem == 0) return false;
  const auto name = stripped(entry.name);
  if (name && rules_.filter->excludes(*name)) return false;
  const std::string around = depth == 0 ? "" : levels_.back().member;
  const auto read = [this, around, &from = top()]() -> Result<Block> {  // for any thread
    TRY(meter_.check());
    auto block = from.read();
    if (!block && !around.empty()) return of_member(std::move(block.error()), around);
    return block;
  };
  Level level;
  level.member = entry.name;
  level.prefix = entry.name.substr(0, stem) + "/";
  const auto directory = stripped(level.prefix);
  level.is_wanted = !directory || rules_.filter->may_want_below(*directory);
  if (!level.is_wanted && !is_wanted_file(entry.name)) return false;
  level.bytes = std::make_unique<MemberBytes>(read, entry.size);
  const auto opened = open_level(level, *archive_name(last_part(entry.name)));
  if (!opened && level.is_wanted) return of_member(opened.error(), level.member);
  if (opened && !*opened) {
    if (is_wanted_file(entry.name)) files_as_they_are_.add(entry.name);
    level.bytes->keep_no_more();
    member_ = std::move(level.bytes);
    return false;
  }
  directory_ =
      Entry{level.prefix, Entry::Kind::directory, 0777, entry.mtime, 0, {}, "", entry.name};
  remember(level, directory);
  if (level.is_wanted) levels_.push_back(std::move(level));
  return true;
}

// Only of so many archives: what is remembered is for texts. Those of which strip= leaves nothing
// have one directory.
void NestedEntries::remember(const Level& level, const std::optional<std::string>& stripped) {
  const auto member = clean_entry_name(level.member);
  const auto directory = clean_entry_name(level.prefix);
  if (!member || !directory || extracted_.size() >= k_most_extracted) return;
  extracted_.insert(std::hash<std::string>()(*member));
  const std::string place = rules_.filter ? stripped.value_or("") : *directory;
  if (directories_.insert(std::hash<std::string>()(place)).second) return;
  united_.add(level.member);
}

// The name as the filter takes it; empty: there is no filter, nothing of the name is left, or it
// has "..", with which the entry is refused later.
std::optional<std::string> NestedEntries::stripped(const std::string& name) const {
  if (!rules_.filter) return std::nullopt;
  const auto cleaned = clean_entry_name(name);
  return cleaned ? rules_.filter->strip(*cleaned) : std::nullopt;
}

// By the member's own name.
bool NestedEntries::is_wanted_file(const std::string& name) const {
  const auto cleaned = clean_entry_name(name);
  return !rules_.filter || !cleaned || rules_.filter->map(*cleaned);
}

Result<bool> NestedEntries::open_level(Level& level, const ArchiveName& name) {
  TRY_ASSIGN(const std::vector<std::byte> start, level.bytes->start(k_member_start));
  if (start.empty()) return fault(0, "empty (0 bytes)", k_of_an_empty_one);
  const Coding coding = recognise_coding(start);
  if (coding != Coding::plain) return open_compressed(level, coding, name);
  if (is_tar_start(start, name)) {
    level.bytes->keep_no_more();
    return open_stream(level, std::make_unique<PlainMember>(*level.bytes), coding);
  }
  const Container container = recognise_container(start);
  if (container == Container::none && zeros_before_data(start) == start.size())
    return fault(0, "empty: it begins with zeros", k_of_an_empty_one);
  const bool is_named_zip = name.container == Container::zip;
  const bool may_be_checkpoint = container == Container::zip && has_pickle_first(start);
  if (!is_named_zip && (container == Container::none || may_be_checkpoint)) return false;
  return open_file(level, container, may_be_checkpoint);
}

Result<bool> NestedEntries::open_stream(Level& level, std::unique_ptr<Decoding> from,
                                        Coding coding) {
  level.decoder = std::make_unique<Decoder>(
      Decoder::Stream{level.member, level.bytes->size(), coding, &meter_}, std::move(from));
  level.entries = open_tar_entries(*level.decoder, rules_.end);
  return true;
}

// Threads cost more than a small one, and memory for each archive that has some. One thread alone
// can read a member of a zip (zip_member.hpp).
bool NestedEntries::is_for_threads(const Level& level) const {
  return rules_.decoding.threads > 1 && level.is_wanted &&
         level.bytes->size() >= k_least_for_threads && !has_zip_below() &&
         std::none_of(levels_.begin(), levels_.end(),
                      [](const Level& around) { return around.has_threads; });
}

// What is named for its compression and cannot be decoded from its start on is damaged. Anything
// else may only look like it.
Result<bool> NestedEntries::open_compressed(Level& level, Coding coding, const ArchiveName& name) {
  auto& pool = pools_[levels_.size()];
  if (!pool) pool = std::make_unique<BufferPool>(k_decoded_block, k_decoded_blocks);
  const Decoder::Stream about{level.member, level.bytes->size(), coding, &meter_};
  auto member = std::make_unique<CompressedMember>(*level.bytes, *pool, about);
  const auto start = member->peek();
  if (!start && (coding == name.coding || is_of_outer(start.error()))) return start.error();
  if (start && is_tar_start(*start, name)) {
    std::unique_ptr<Decoding> from = std::move(member);
    level.has_threads = is_for_threads(level);
    if (level.has_threads) {
      from.reset();
      TRY_ASSIGN(from, start_member_decoding(*level.bytes, about, rules_.decoding));
    } else {
      level.bytes->keep_no_more();
    }
    return open_stream(level, std::move(from), coding);
  }
  member.reset();
  level.bytes->rewind();
  return false;
}

// Of no container that is known from its start: it may be a zip after a program that extracts it.
Result<bool> NestedEntries::open_file(Level& level, Container container, bool may_be_checkpoint) {
  if (!level.is_wanted) return container != Container::none;
  if (!rules_.room) return false;
  level.bytes->keep_no_more();
  const auto within = [this](std::uint64_t more) { return bounds_.check_ratio(copied_ += more); };
  TRY_ASSIGN(Fd fd, copies_[levels_.size()].take(*level.bytes, *rules_.room, within));
  TRY_ASSIGN(Source source, Source::of_file(std::move(fd), level.member, uncounted_));
  level.file = std::make_unique<Source>(std::move(source));
  if (container == Container::none) {
    TRY_ASSIGN(const bool is_zip, has_zip_end(*level.file));
    if (!is_zip) return come_as_copied(level);
    container = Container::zip;
  }
  if (may_be_checkpoint) {
    TRY_ASSIGN(const ZipIndex index, read_zip_index(*level.file));
    if (index.has_checkpoint(false)) return come_as_copied(level);
  }
  if (container == Container::zip && !has_zip_below()) {
    TRY_ASSIGN(level.entries, open_zip_entries(*level.file));
  } else {
    std::optional<ZipIndex> index;
    if (container == Container::zip) {
      TRY_ASSIGN(index, read_zip_index(*level.file));
    }
    TRY_ASSIGN(level.entries, open_file_entries(container, *level.file, std::move(index)));
  }
  return true;
}

// Its bytes have been read: they come from the copy.
bool NestedEntries::come_as_copied(Level& level) {
  const std::uint64_t size = level.file->size();
  const auto read = [file = std::shared_ptr<Source>(std::move(level.file))]() -> Result<Block> {
    const std::uint64_t at = file->position();
    const std::shared_ptr<std::byte[]> memory(new std::byte[k_copied_block]);
    TRY_ASSIGN(const std::size_t count, file->read({memory.get(), k_copied_block}));
    return Block{at, Slice(memory, Bytes(memory.get(), count))};
  };
  level.bytes = std::make_unique<MemberBytes>(read, size);
  return false;
}

// Our reader of zips reads one member at a time in a thread (zip_member.hpp), and one of an archive
// below may be on its way.
bool NestedEntries::has_zip_below() const {
  return outer_->contents() != nullptr ||
         std::any_of(levels_.begin(), levels_.end(),
                     [](const Level& level) { return level.entries->contents() != nullptr; });
}

// The level is at its end. The member's own end may have a checksum in the outer archive.
Status NestedEntries::close() {
  Level level = std::move(levels_.back());
  levels_.pop_back();
  TRY(check_empty(level));
  std::string note = level.entries->note();
  const ZipIndex* contents = level.entries->contents();
  const Junk* const junk =
      level.decoder != nullptr && level.decoder->junk() ? &*level.decoder->junk() : nullptr;
  // Another archive there would be lost.
  const std::string kind = junk != nullptr ? kind_of_start(junk->start) : "";
  if (!kind.empty()) return of_member(other_archive(level.member, kind, junk->at), level.member);
  const bool has_junk = (contents != nullptr && contents->has_junk()) || junk != nullptr;
  if (has_junk && note.empty()) note = k_junk_note;
  if (!level.has_entries && note.empty()) note = "it has no entries";
  if (!note.empty()) noted_.add("'" + shown(level.member) + "': " + note);
  level.entries.reset();
  level.decoder.reset();
  level.file.reset();
  TRY(empty_copy());
  return level.bytes->drain();
}

Status NestedEntries::check_empty(const Level& level) const {
  const bool is_plain_tar = level.decoder != nullptr && level.decoder->coding() == Coding::plain;
  if (level.has_entries || !is_plain_tar || level.bytes->size() <= k_empty_tar) return {};
  return of_member(fault(0, "empty: it begins with zeros", k_of_an_empty_one), level.member);
}

// That of the level above the open ones, in which nothing is left to read.
Status NestedEntries::empty_copy() {
  if (levels_.size() == copies_.size() || !rules_.room) return {};
  return copies_[levels_.size()].empty(rules_.room->space);
}

std::string NestedEntries::note() const {
  std::string note = outer_->note();
  add_note(note, noted_.first + noted_.others("and ", " more with notes"));
  if (united_.count > 0)
    add_note(note, "'" + shown(united_.first) + "' became the directory of another archive" +
                       united_.others("and so did ", " more") +
                       ": of files with one name, the last is there");
  const std::string name = "'" + shown(files_as_they_are_.first) + "'";
  if (files_as_they_are_.count == 1)
    add_note(note, name + " is named like an archive, but is not one: it was copied as it is");
  if (files_as_they_are_.count > 1)
    add_note(note, human_count(files_as_they_are_.count) +
                       " files are named like archives, but are not: they were copied as they are "
                       "(the first is " +
                       name + ")");
  return note;
}

// The outer archive's, or the task's.
bool NestedEntries::is_of_outer(const Error& error) const {
  return is_stopped(error) || error.what.starts_with(shown(path_) + ": ");
}

// The fault of an archive at that depth: 0 is the outer one, which says its path itself.
Error NestedEntries::named(Error error, std::size_t depth) const {
  return depth == 0 ? error : of_member(std::move(error), levels_[depth - 1].member);
}

// What a reader advises for a file is of no use: there is none.
Error NestedEntries::of_member(Error error, const std::string& member) const {
  if (is_of_outer(error)) return error;
  const std::string start = shown(member) + ": ";
  if (error.what.starts_with(start)) {
    error.what.erase(0, start.size());
    error.advice = without_commands(std::move(error.advice), member);
    if (!error.advice.empty()) error.advice += error.advice.ends_with('?') ? " " : ". ";
    error.advice += k_of_a_member;
  }
  return with_advice(
      with_prefix(std::move(error), shown(path_) + ": entry '" + shown(member) + "': "),
      k_of_a_member);
}

}  // namespace

std::size_t nested_stem(std::string_view name) {
  const ArchiveName* row = archive_name(name);
  if (row == nullptr || row->use != ArchiveName::Use::extracted) return 0;
  const std::size_t stem = name.size() - row->suffix.size();
  const std::string_view last = name.substr(0, stem).substr(name.rfind('/') + 1);
  return last.empty() || last == "." || last == ".." ? 0 : stem;
}

std::unique_ptr<Entries> open_nested_entries(std::unique_ptr<Entries> outer, const Source& source,
                                             const NestedRules& rules) {
  return std::make_unique<NestedEntries>(std::move(outer), source, rules);
}

}  // namespace nodestage

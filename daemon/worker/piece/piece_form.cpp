#include "daemon/worker/piece/piece_form.hpp"

#include <sys/stat.h>

#include <vector>

#include "common/text/archive_names.hpp"
#include "common/text/human.hpp"
#include "common/text/part_names.hpp"
#include "common/text/path_names.hpp"
#include "daemon/worker/archive/archive_entries.hpp"
#include "daemon/worker/archive/entry_filter.hpp"
#include "daemon/worker/tree/tree_walk.hpp"
#include "daemon/worker/write/tree_writer.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_look_block = std::size_t{1} << 20;

// No file has the path of the whole, so no command can test it.
std::string without_test_of(const std::string& path, std::string advice) {
  const std::size_t test =
      std::min(advice.find(" Test it with: "), advice.find(" Compare it with"));
  const std::string file = " " + shell_word(shown(path));
  if (test != std::string::npos && advice.ends_with(file)) advice.resize(test);
  if (advice.ends_with('.')) advice.pop_back();
  return advice;
}

constexpr const char* k_dereferenced = "an archive of nodestage pack --dereference";

Error parted_link(const std::string& link) {
  return fault(ENOENT, "is a hard link to '" + shown(link) + "', which strip= leaves out",
               "include=, exclude= and strip= must not separate hard links");
}

std::size_t depth_of(const std::string& name) {
  return static_cast<std::size_t>(std::count(name.begin(), name.end(), '/'));
}

// Counts the files of an archive that are named like archives, while they may be most of them: it
// is only for a note. "x.pth.tar" is usually no archive.
class NestedCount {
 public:
  void add(const std::string& name) {
    ++files;
    if (files > k_surely_counted && 2 * archives < files) return;
    const std::size_t stem = nested_stem(name);
    if (stem == 0) return;
    const ArchiveName* inner = archive_name(std::string_view(name).substr(0, stem));
    if (inner == nullptr || inner->use != ArchiveName::Use::copied) ++archives;
  }

  std::uint64_t files = 0;
  std::uint64_t archives = 0;

 private:
  static constexpr std::uint64_t k_surely_counted = 64;
};

// Returns whether it reached the archive's end.
Result<bool> read_entries(Entries& entries, const LookTime& time, PieceLook& look,
                          NestedCount& count) {
  while (time.is_left()) {
    TRY_ASSIGN(const Entry* entry, entries.next());
    if (entry == nullptr) return true;
    if (entry->kind != Entry::Kind::directory) ++look.files;
    if (entry->kind == Entry::Kind::file) count.add(entry->name);
    std::uint64_t left = entry->kind == Entry::Kind::file ? entry->size : 0;
    bool has_more = true;
    while (has_more && time.is_left()) {
      TRY_ASSIGN(const Block block, entries.read());
      has_more = !block.data.empty();
      look.bytes += block.data.size();
      left -= std::min<std::uint64_t>(left, block.data.size());
    }
    look.unread = has_more ? left : 0;
  }
  return false;
}

}  // namespace

std::string left_out_note(std::uint64_t count, const Skipped& what) {
  if (count == 0) return "";
  return human_count(count) + " " + (count == 1 ? what.one : what.many) + " left out";
}

Error PieceForm::of_source(Error error) const {
  const std::string start = shown(path) + ": ";
  return is_stopped(error) || error.what.starts_with(start) ? error
                                                            : with_prefix(std::move(error), start);
}

// A part is neither damaged nor without its end.
Error PieceForm::as_part(Error error) const {
  if (is_part_name(path) && !is_joined() && !is_stopped(error))
    error.advice =
        "By its name it is one part of an archive in several files. " + how_to_stage_parts(path);
  return error;
}

// What has a code is no fault of the content.
Error PieceForm::as_joined(Error error) const {
  const std::vector<std::string>& parts = wanted.parts;
  if (parts.size() < 2 || error.code != 0) return error;
  const std::string advice = without_test_of(path, error.advice);
  error.advice = "It was joined of " + human_count(parts.size()) + " parts, " +
                 shown(last_part(parts.front())) + " to " + shown(last_part(parts.back())) +
                 ": if another one follows or one is not whole, transfer it again";
  if (!advice.empty()) error.advice += ". " + advice;
  return error;
}

namespace {

// The one before it, in the place of 1, if split(1) can have made it; 7z and others begin with 1.
std::string part_0_before(const std::string& first) {
  const std::size_t at = first.find_last_not_of("0123456789") + 1;
  if (at == 0 || at == first.size() || first.find_first_not_of('0', at) != first.size() - 1 ||
      first.back() != '1')
    return {};
  std::string before = lower(first.substr(0, at));
  if (before.find_last_of("._-") == before.size() - 1) before.pop_back();
  for (const std::string_view other : {"part", ".z", ".7z"})
    if (before.ends_with(other)) return {};
  return first.substr(0, first.size() - 1) + "0";
}

}  // namespace

std::string PieceForm::range_of_parts() const {
  const std::vector<SourcePart>& parts = source->parts();
  if (!is_joined() || parts.front().path == path) return {};
  const std::string first = last_part(parts.front().path);
  const std::string last = shown(last_part(parts.back().path));
  std::string text = "joined of " + shown(first) + (parts.size() == 1 ? " alone" : " to " + last);
  const bool is_even = parts.size() > 1 && std::all_of(parts.begin(), parts.end(), [&](auto& one) {
                         return one.info.st_size == parts.front().info.st_size;
                       });
  if (is_even)
    text += "; " + last + " is as large as the others: if another part follows, transfer it, too";
  if (const std::string before = part_0_before(first); !before.empty())
    text += "; `split -d` begins with " + shown(before) + ": if it made them, transfer that, too";
  return text;
}

Status PieceForm::look_plainly(const LookTime& time, PieceLook& look) {
  std::vector<std::byte> block(k_look_block);
  while (!look.is_whole && time.is_left()) {
    TRY_ASSIGN(const std::size_t count, source->read(block));
    look.is_whole = count < block.size();
  }
  look.position = source->position();
  return {};
}

Result<Fd> make_directory(const PieceContext& place) {
  TRY(place.space.will_make());
  if (::mkdirat(place.dir_fd, place.name.c_str(), 0777) != 0)
    return place.space.explain(place.name, errno);
  auto fd = open_directory_at(place.dir_fd, place.name);
  if (!fd) return place.space.explain(place.name, fd.error().code);
  return fd;
}

std::string entry_keys_of(const Unpacking& wanted, bool with_globs) {
  std::vector<std::string> keys;
  if (wanted.strip > 0) keys.emplace_back("strip=");
  if (with_globs && !wanted.include.empty()) keys.emplace_back("include=");
  if (with_globs && !wanted.exclude.empty()) keys.emplace_back("exclude=");
  std::string text;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (i > 0) text += i + 1 == keys.size() ? " and " : ", ";
    text += keys[i];
  }
  return text;
}

Status check_taken(const std::string& path, const Unpacking& wanted, std::uint64_t seen,
                   std::uint64_t taken, const std::string& advice) {
  if (seen == 0 || taken > 0) return {};
  const std::string keys = entry_keys_of(wanted);
  const bool is_one = keys.find(' ') == std::string::npos;
  return fault(ENOENT,
               shown(path) + ": " + keys + (is_one ? " leaves" : " leave") + " nothing of it",
               advice);
}

std::string nested_note(std::uint64_t archives, std::uint64_t files, const char* whose) {
  if (archives == 0 || 2 * archives <= files) return {};
  if (files == 1)
    return std::string(whose) + " only file is named like an archive; nested extracts it";
  return human_count(archives) + " of " + whose + " " + human_count(files) +
         " files are named like archives; nested extracts them";
}

std::string ArchivePiece::kind() const {
  std::string kind(row_of(container_).name);
  if (coding() != Coding::plain) kind.append(".").append(row_of(coding()).suffix);
  return kind;
}

Status ArchivePiece::open_entries() {
  if (entries_) return {};
  TRY_ASSIGN(entries_, entries_of_container());
  return entries_->contents() != nullptr ? check_members(*entries_->contents()) : Status();
}

// Call it once, when they are open.
void ArchivePiece::open_nested(std::optional<NestedRoom> room,
                               std::shared_ptr<const EntryFilter> filter) {
  if (wanted.nested == 0) return;
  entries_ =
      open_nested_entries(std::move(entries_), *source,
                          {wanted.nested, wanted.eof, limits.rules, room, std::move(filter),
                           room && has_two_decoders() ? decoder_limits() : DecoderLimits{1}});
}

Result<std::unique_ptr<Entries>> ArchivePiece::entries_of_container() {
  switch (container_) {
    case Container::none:
      break;
    case Container::tar:
      return open_tar_entries(*decoder_, wanted.eof);
    case Container::zip:
      return open_zip_entries(*source);
    case Container::seven_zip:
    case Container::iso:
      return open_file_entries(container_, *source);
  }
  return Error{EINVAL, shown(path) + ": is not an archive"};
}

// Before anything is written: checks whether the wanted members can be read here.
Status ArchivePiece::check_members(const ZipIndex& index) const {
  if (index.is_plain()) return {};
  const EntryFilter filter(wanted.strip, wanted.include, wanted.exclude);
  for (std::size_t i = 0; i < index.size(); ++i) {
    const ZipRecord member = index.record(i);
    const auto name = clean_entry_name(member.name());
    if (!name || !filter.map(*name)) continue;
    if (Status readable = member.check_readable(); !readable)
      return at_entry(std::move(readable.error()), member.name());
  }
  return {};
}

Result<Need> ArchivePiece::need() {
  const EntryFilter filter(wanted.strip, wanted.include, wanted.exclude);
  const bool is_part = !wanted.include.empty() || !wanted.exclude.empty();
  if (container_ == Container::zip && !(wanted.nested > 0 && (is_part || wanted.strip > 0))) {
    TRY(open_entries());
    Need need = need_of_members(*entries_->contents(), filter);
    if (wanted.nested > 0) need.least = {};
    return need;
  }
  if (is_part) return Need{};
  TRY_ASSIGN(Need need, need_of_archive(*source, decoder_->coding(), container_));
  if (wanted.strip > 0 || wanted.nested > 0) need.least = {};
  return need;
}

Result<PieceLook> ArchivePiece::look(std::chrono::milliseconds limit) {
  const LookTime time(limit);
  PieceLook look;
  TRY(open_entries());
  open_nested(std::nullopt,
              std::make_shared<const EntryFilter>(wanted.strip, wanted.include, wanted.exclude));
  NestedCount count;
  const ZipIndex* contents = wanted.nested == 0 ? entries_->contents() : nullptr;
  if (contents != nullptr) {
    look.index = PieceLook::Index{0, contents->total_size(), contents->is_plain()};
    for (std::size_t i = 0; i < contents->size(); ++i) {
      const std::string member = contents->record(i).name();
      if (member.ends_with('/')) continue;
      ++look.index->files;
      if (wanted.nested == 0) count.add(member);
    }
    TRY(look_plainly(time, look));
  } else {
    const std::uint64_t before = meter->bytes_read;
    TRY_ASSIGN(look.is_whole, read_entries(*entries_, time, look, count));
    // libarchive reads a 7z itself, from its start, after the headers at its end.
    look.position = is_stream(container_) ? decoder_->position() : meter->bytes_read - before;
    if (look.is_whole || look.position > source->size()) look.position = source->size();
    look.threads = decoder_->threads();
  }
  look.spent = time.spent();
  const bool is_all = look.is_whole || look.index;
  if (wanted.nested == 0 && !wanted.is_by_content && wanted.include.empty())
    add_note(nested_note(count.archives, look.index ? look.index->files : look.files,
                         is_all ? "its" : "its first"));
  return look;
}

Status ArchivePiece::build(const PieceContext& place) {
  TRY_ASSIGN(const Fd to, make_directory(place));
  TRY(open_entries());  // first: it looks for an index at the end
  const auto filter =
      std::make_shared<const EntryFilter>(wanted.strip, wanted.include, wanted.exclude);
  open_nested(NestedRoom{place.dir_fd, place.space}, filter);
  begin_relay(is_stream(container_) ? source->position() : 0);
  TreeWriter writer(to.get(), place.umask, *meter, place.space,
                    {limits.threads, limits.memory / 3, limits.rules.escaping, limits.rules.special,
                     TreeWriterLimits().names, place.writes});
  EntryLimits bounds(source->size(), limits.rules);
  written_before_ = meter->bytes_written;
  OutLinks out_links;
  if (Status written = write_entries(writer, bounds, *filter, out_links); !written)
    return as_part(std::move(written.error()));
  if (Status finished = writer.finish(); !finished) {
    const std::string* failed = writer.failed_entry();
    return at_entry(std::move(finished.error()), failed != nullptr ? *failed : "");
  }
  if (Status within = check_ratio(bounds); !within) return at_entry(std::move(within.error()), "");
  const TreeWriter::LeftOut left_out = writer.left_out();
  add_skipped(escaped_ + left_out.escaped,
              {"entry that leads out of the archive", "entries that lead out of the archive"});
  add_skipped(left_out.specials, k_specials);
  add_skipped(left_out.set_ids, {"file's set-id bits", "files' set-id bits"});
  add_skipped(left_out.lost_xattrs, k_lost_xattrs);
  add_note(writer.unreadable().note());
  if (wanted.links == Links::follow) add_note(k_only_directories);
  if (meter->bytes_written == written_before_)
    link_note = out_links.note(LinksOut::kept, k_dereferenced, 0);
  return look_behind();
}

// Takes notes of what follows the archive, if it is no other archive.
Status ArchivePiece::look_behind() {
  add_note(entries_->note());
  bool is_junk = entries_->contents() != nullptr && entries_->contents()->has_junk();
  if (const auto& junk = decoder_->junk()) {
    TRY_ASSIGN(is_junk, has_junk(*source, junk->at));
  }
  if (is_junk) add_note(k_junk_note);
  return {};
}

Status ArchivePiece::write_entries(TreeWriter& writer, EntryLimits& bounds,
                                   const EntryFilter& filter, OutLinks& out_links) {
  std::string name;
  std::uint64_t seen = 0;
  std::uint64_t taken = 0;
  const bool counts = wanted.nested == 0 && !wanted.is_by_content && wanted.include.empty();
  NestedCount count;
  for (;;) {
    auto next = entries_->next();
    if (!next) return at_entry(std::move(next.error()), name);
    if (*next == nullptr) break;
    Entry& entry = **next;
    name = entry.made_of.empty() ? entry.name : entry.made_of;
    if (!limits.rules.xattrs) entry.xattrs.reset();
    Status within = bounds.check(entry);
    if (within) within = check_ratio(bounds);
    if (!within) return at_entry(std::move(within.error()), name);
    auto cleaned = clean_entry_name(entry.name);
    if (!cleaned) {
      TRY(refuse(cleaned.error(), name));
      continue;
    }
    if (cleaned->empty() && entry.kind != Entry::Kind::directory) {
      return fault(EINVAL, shown(path) + ": contains an entry without a name",
                   "Make the archive again without such an entry");
    }
    const auto mapped = filter.map(*cleaned);
    if (!cleaned->empty()) ++seen;
    if (!mapped) continue;
    entry.name = *mapped;
    if (entry.kind == Entry::Kind::symlink && leads_out(entry.link, depth_of(entry.name)))
      out_links.add_kept(entry.name, entry.link);
    if (entry.kind == Entry::Kind::hard_link) {
      const auto link = clean_entry_name(entry.link);
      if (!link) {
        TRY(refuse(Error{EINVAL, "is a hard link that leads out of the archive"}, name));
        continue;
      }
      auto stripped = filter.strip(*link);
      if (!stripped) return at_entry(parted_link(*link), name);
      entry.link = std::move(*stripped);
    }
    if (!mapped->empty()) ++taken;
    if (counts && entry.kind == Entry::Kind::file) count.add(entry.name);
    if (Status added = write_entry(entry, writer, bounds); !added) {
      const std::string* failed = writer.failed_entry();
      return at_entry(std::move(added.error()), failed != nullptr ? *failed : name);
    }
  }
  idle_globs = filter.idle_globs();
  if (seen == 0) add_note("the archive has no entries");
  if (counts) add_note(nested_note(count.archives, count.files));
  return check_taken(path, wanted, seen, taken,
                     "Look at its names; globs match what strip= leaves of them");
}

// The fault of an entry that leads out of the archive, or ok if the settings skip such entries.
Status ArchivePiece::refuse(const Error& error, const std::string& name) {
  if (limits.rules.escaping == Escaping::fail) return at_entry(error, name);
  ++escaped_;
  return {};
}

// For this archive alone.
Status ArchivePiece::check_ratio(const EntryLimits& bounds) const {
  return bounds.check_ratio(meter->bytes_written - written_before_);
}

Status ArchivePiece::write_entry(const Entry& entry, TreeWriter& writer,
                                 const EntryLimits& bounds) {
  if (entries_->data() != nullptr) return writer.add(entry, *entries_->data(), entries_->id());
  TRY(writer.add(entry));
  for (;;) {
    TRY_ASSIGN(const Block block, entries_->read());
    if (block.data.empty()) return {};
    TRY(writer.write(block.offset, block.data));
    TRY(check_ratio(bounds));
  }
}

// Faults of the source start with its path; those of an entry get it here.
Error ArchivePiece::at_entry(Error error, const std::string& name) const {
  if (is_stopped(error)) return error;
  const std::string start = shown(path) + ": ";
  const bool has_path = error.what.starts_with(start);
  if (name.empty() || error.what.starts_with(start + "entry '")) return of_source(std::move(error));
  if (has_path) return with_suffix(std::move(error), " (entry " + shown(name) + ")");
  return with_advice(with_prefix(std::move(error), start + "entry '" + shown(name) + "': "),
                     "Make the archive again without such an entry");
}

}  // namespace nodestage

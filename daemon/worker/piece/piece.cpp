#include "daemon/worker/piece/piece.hpp"

#include <dirent.h>
#include <fcntl.h>

#include <algorithm>

#include "common/os/file.hpp"
#include "common/text/archive_names.hpp"
#include "common/text/human.hpp"
#include "common/text/path_names.hpp"
#include "daemon/worker/archive/archive_end.hpp"
#include "daemon/worker/archive/archive_entries.hpp"
#include "daemon/worker/archive/cpio_entries.hpp"
#include "daemon/worker/archive/entry_limits.hpp"
#include "daemon/worker/archive/tar_entries.hpp"
#include "daemon/worker/archive/zip_entries.hpp"
#include "daemon/worker/copy/copy_file.hpp"
#include "daemon/worker/copy/copy_tree.hpp"
#include "daemon/worker/piece/recognise.hpp"
#include "daemon/worker/tree/dir_stack.hpp"
#include "daemon/worker/tree/write_bits.hpp"
#include "daemon/worker/write/tree_writer.hpp"

namespace nodestage {
namespace {

constexpr std::string_view k_lost_xattrs = "extended attributes or ACLs";
constexpr const char* k_only_directories = "links= has a meaning for directories only";
constexpr const char* k_dereferenced = "an archive of nodestage pack --dereference";

Result<Fd> make_directory(const Piece::Place& place) {
  TRY(place.space.will_make());
  if (::mkdirat(place.dir_fd, place.name.c_str(), 0777) != 0)
    return place.space.explain(place.name, errno);
  auto fd = open_directory_at(place.dir_fd, place.name);
  if (!fd) return place.space.explain(place.name, fd.error().code);
  return fd;
}

std::string skipped_note(std::uint64_t count, std::string_view what) {
  return count == 0 ? "" : human_count(count) + " " + std::string(what) + " left out";
}

Error parted_link(const std::string& link) {
  return fault(ENOENT, "is a hard link to '" + shown(link) + "', which strip= leaves out",
               "include=, exclude= and strip= must not separate hard links");
}

std::vector<ListedName> listed(const NewestChoice* choice) {
  std::vector<ListedName> names;
  if (choice == nullptr) return names;
  for (const NewestEntry& entry : choice->entries)
    names.push_back(
        {entry.info.st_ino, static_cast<unsigned char>(IFTODT(entry.info.st_mode)), entry.name});
  return names;
}

std::size_t depth_of(const std::string& name) {
  return static_cast<std::size_t>(std::count(name.begin(), name.end(), '/'));
}

}  // namespace

Result<Piece> Piece::open(const std::string& path, const Unpacking& wanted, Meter& meter,
                          const PieceLimits& limits) {
  Piece piece(path, wanted, meter, limits);
  TRY(piece.recognise());
  return piece;
}

Status Piece::recognise() {
  TRY_ASSIGN(const struct stat info, examine_source(path_));
  if (S_ISDIR(info.st_mode)) {
    form_ = Form::directory;
    return {};
  }
  if (wanted_.only != nullptr) return newest_of_file(path_);
  TRY_ASSIGN(Source source, Source::open(path_, *meter_));
  source_ = std::make_unique<Source>(std::move(source));
  auto found = nodestage::recognise(*source_, wanted_,
                                    {limits_.threads, limits_.memory - limits_.memory / 3});
  if (!found) return std::move(found.error());
  decoder_ = std::move(found->decoder);
  container_ = found->container;
  if (container_ != Container::none) form_ = Form::archive;
  add_note(found->note);
  return {};
}

std::string Piece::default_name() const {
  return form_ == Form::file ? last_part(path_) : default_destination(path_);
}

std::string Piece::kind() const {
  if (form_ == Form::directory) return "directory";
  if (form_ == Form::file) return "file";
  std::string kind(row_of(container_).name);
  if (decoder_->coding() != Coding::plain)
    kind.append(".").append(row_of(decoder_->coding()).suffix);
  return kind;
}

Status Piece::build(const Place& place) {
  Status made = make(place);
  end_relay();
  return made;
}

Status Piece::make(const Place& place) {
  switch (form_) {
    case Form::directory:
      return copy_directory(place);
    case Form::file:
      return copy_as_file(place);
    case Form::archive:
      return extract(place);
  }
  return {};
}

void Piece::begin_relay(std::uint64_t offset) {
  if (relay_ == nullptr) return;
  source_->relay(relay_->begin(path_, source_->fd(), source_->info(), offset));
}

void Piece::end_relay() {
  if (source_ && source_->relayed() != nullptr) relay_->add(source_->relayed()->close());
}

Status Piece::copy_directory(const Place& place) {
  TRY_ASSIGN(Fd from, open_source_directory(path_));
  TRY_ASSIGN(const Fd to, make_directory(place));
  const std::uint64_t written_before = meter_->bytes_written;
  const EntryFilter filter(wanted_.strip, wanted_.include, wanted_.exclude);
  XattrCopy xattrs;
  const std::vector<ListedName> only = listed(wanted_.only);
  CopyTree copy(to.get(), path_,
                {filter, *meter_, place.space, place.umask, limits_.threads,
                 limits_.rules.xattrs ? &xattrs : nullptr,
                 wanted_.only != nullptr ? &only : nullptr, wanted_.links});
  Status copied = copy.run(std::move(from));
  if (!copied)
    return wanted_.only != nullptr ? fault_of_chosen(std::move(copied.error())) : copied.error();
  if (place.writes == Writes::taken) TRY(take_write_bits(to.get()));
  add_note(skipped_note(xattrs.lost, k_lost_xattrs));
  add_note(skipped_note(copy.skipped(), "FIFOs, sockets or devices"));
  add_note(copy.notes().unreadable.note());
  link_note_ = copy.notes().out_links.note(wanted_.links, "links=follow",
                                           meter_->bytes_written - written_before);
  if (wanted_.strip > 0) add_note("strip= has no meaning for a directory");
  if (wanted_.extract == Extract::yes) add_note("extract= has no meaning for a directory");
  if (wanted_.only == nullptr) idle_globs_ = filter.idle_globs();  // else it has not seen all names
  return check_taken(filter.takes_all() ? 0 : 1, copy.taken());
}

Status Piece::copy_as_file(const Place& place) {
  meter_->bytes_read -= source_->position();  // the bytes read to recognize it are read again
  TRY(place.space.will_make());
  auto to = open_at(place.dir_fd, place.name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
  if (!to) return place.space.explain(place.name, to.error().code);
  ++meter_->files;
  XattrCopy xattrs;
  struct stat info = source_->info();
  if (place.writes == Writes::taken) info.st_mode &= ~k_write_bits;
  FileToCopy file{source_->fd(), info, path_};
  if (limits_.rules.xattrs) file.xattrs = &xattrs;
  begin_relay(0);
  file.from_storage = &meter_->from_storage;
  if (source_->relayed() != nullptr) file.relayed = source_.get();
  TRY(copy_file(file, std::move(*to), *meter_, place.space));
  UnreadableEntries unreadable;
  unreadable.look_at(place.name, info.st_mode);
  add_note(unreadable.note());
  if (wanted_.links == LinksOut::followed) add_note(k_only_directories);
  add_note(skipped_note(xattrs.lost, k_lost_xattrs));
  return {};
}

Status Piece::open_entries() {
  if (entries_) return {};
  TRY_ASSIGN(entries_, entries_of_container());
  return entries_->contents() != nullptr ? check_members(*entries_->contents()) : Status();
}

Result<std::unique_ptr<Entries>> Piece::entries_of_container() {
  switch (container_) {
    case Container::none:
      break;
    case Container::tar:
      return open_tar_entries(*decoder_, wanted_.eof);
    case Container::cpio:
      return open_cpio_entries(*decoder_);
    case Container::zip:
      return open_zip_entries(*source_);
    case Container::seven_zip:
    case Container::iso:
      return open_file_entries(container_, *source_);
  }
  return Error{EINVAL, shown(path_) + ": is not an archive"};
}

// Before anything is written: checks whether the wanted members can be read here.
Status Piece::check_members(const ArchiveContents& contents) const {
  if (contents.is_plain()) return {};
  const EntryFilter filter(wanted_.strip, wanted_.include, wanted_.exclude);
  for (std::size_t i = 0; i < contents.size(); ++i) {
    const std::string member = contents.member(i).name;
    const auto name = clean_entry_name(member);
    if (!name || !filter.map(*name)) continue;
    if (Status readable = contents.check_readable(i); !readable)
      return at_entry(std::move(readable.error()), member);
  }
  return {};
}

Result<Need> Piece::need() {
  if (form_ == Form::directory) return wanted_.only == nullptr ? Need{} : need_of(*wanted_.only);
  if (form_ == Form::file) return need_of_file(source_->info());
  const EntryFilter filter(wanted_.strip, wanted_.include, wanted_.exclude);
  if (container_ == Container::zip) {
    TRY(open_entries());
    return need_of_members(*entries_->contents(), filter);
  }
  if (!wanted_.include.empty() || !wanted_.exclude.empty()) return Need{};
  TRY_ASSIGN(Need need, need_of_archive(*source_, decoder_->coding(), container_));
  if (wanted_.strip > 0) need.least = {};
  return need;
}

Status Piece::extract(const Place& place) {
  TRY_ASSIGN(const Fd to, make_directory(place));
  TRY(open_entries());  // first: it looks for an index at the end
  begin_relay(is_stream(container_) ? source_->position() : 0);
  const mode_t umask = place.writes == Writes::taken ? place.umask | k_write_bits : place.umask;
  TreeWriter writer(
      to.get(), umask, *meter_, place.space,
      {limits_.threads, limits_.memory / 3, limits_.rules.escaping, limits_.rules.special});
  EntryLimits limits(source_->size(), limits_.rules);
  written_before_ = meter_->bytes_written;
  OutLinks out_links;
  if (Status written = write_entries(*entries_, writer, limits, out_links); !written)
    return as_part(std::move(written.error()));
  if (Status finished = writer.finish(); !finished) {
    const std::string* failed = writer.failed_entry();
    return at_entry(std::move(finished.error()), failed != nullptr ? *failed : "");
  }
  if (Status within = check_ratio(limits); !within) return at_entry(std::move(within.error()), "");
  const TreeWriter::LeftOut left_out = writer.left_out();
  add_note(skipped_note(escaped_ + left_out.escaped, "entries that lead out of the archive"));
  add_note(skipped_note(left_out.specials, "FIFOs, devices or sockets"));
  add_note(skipped_note(left_out.set_ids, "set-id bits of files"));
  add_note(skipped_note(left_out.lost_xattrs, k_lost_xattrs));
  add_note(writer.unreadable().note());
  if (wanted_.links == LinksOut::followed) add_note(k_only_directories);
  if (meter_->bytes_written == written_before_)
    link_note_ = out_links.note(LinksOut::kept, k_dereferenced, 0);
  return look_behind();
}

// Takes notes of what follows the archive, if it is no other archive.
Status Piece::look_behind() {
  add_note(entries_->note());
  bool is_junk = entries_->contents() != nullptr && entries_->contents()->has_junk();
  if (const auto at = decoder_->junk_at()) {
    TRY_ASSIGN(is_junk, has_junk(*source_, *at));
  }
  if (is_junk) add_note(k_junk_note);
  return {};
}

// A part of an archive is neither damaged nor without its end.
Error Piece::as_part(Error error) const {
  if (is_part_name(path_) && !is_stopped(error))
    error.advice =
        "By its name it is one part of an archive in several files: join the parts in "
        "order, and stage the whole";
  return error;
}

Status Piece::write_entries(Entries& entries, TreeWriter& writer, EntryLimits& limits,
                            OutLinks& out_links) {
  const EntryFilter filter(wanted_.strip, wanted_.include, wanted_.exclude);
  std::string name;
  std::uint64_t seen = 0;
  std::uint64_t taken = 0;
  for (;;) {
    auto next = entries.next();
    if (!next) return at_entry(std::move(next.error()), name);
    if (*next == nullptr) break;
    Entry& entry = **next;
    name = entry.name;
    if (!limits_.rules.xattrs) entry.xattrs.reset();
    Status within = limits.check(entry);
    if (within) within = check_ratio(limits);
    if (!within) return at_entry(std::move(within.error()), name);
    auto cleaned = clean_entry_name(entry.name);
    if (!cleaned) {
      TRY(refuse(cleaned.error(), name));
      continue;
    }
    if (cleaned->empty() && entry.kind != Entry::Kind::directory) {
      return fault(EINVAL, shown(path_) + ": contains an entry without a name",
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
    if (Status added = write_entry(entries, entry, writer, limits); !added) {
      const std::string* failed = writer.failed_entry();
      return at_entry(std::move(added.error()), failed != nullptr ? *failed : name);
    }
  }
  idle_globs_ = filter.idle_globs();
  if (seen == 0) add_note("the archive has no entries");
  return check_taken(seen, taken);
}

// The fault of an entry that leads out of the archive, or ok if the settings skip such entries.
Status Piece::refuse(const Error& error, const std::string& name) {
  if (limits_.rules.escaping == Escaping::fail) return at_entry(error, name);
  ++escaped_;
  return {};
}

// For this archive alone.
Status Piece::check_ratio(const EntryLimits& limits) const {
  return limits.check_ratio(meter_->bytes_written - written_before_);
}

Status Piece::write_entry(Entries& entries, const Entry& entry, TreeWriter& writer,
                          const EntryLimits& limits) {
  if (entries.data() != nullptr) return writer.add(entry, *entries.data(), entries.id());
  TRY(writer.add(entry));
  for (;;) {
    TRY_ASSIGN(const Block block, entries.read());
    if (block.data.empty()) return {};
    TRY(writer.write(block.offset, block.data));
    TRY(check_ratio(limits));
  }
}

Status Piece::check_taken(std::uint64_t seen, std::uint64_t taken) const {
  if (seen == 0 || taken > 0) return {};
  return fault(ENOENT, shown(path_) + ": strip=, include= and exclude= leave nothing of it",
               form_ == Form::directory
                   ? "Look at its names with: find " + shell_word(shown(path_)) + " -printf '%P\\n'"
                   : "Look at its names; globs match what strip= leaves of them");
}

// Faults of the source start with its path; those of an entry get it here.
Error Piece::at_entry(Error error, const std::string& name) const {
  if (is_stopped(error)) return error;
  const std::string path = shown(path_) + ": ";
  const bool has_path = error.what.starts_with(path);
  if (name.empty()) return has_path ? error : with_prefix(std::move(error), path);
  if (has_path) return with_suffix(std::move(error), " (entry " + shown(name) + ")");
  return with_advice(with_prefix(std::move(error), path + "entry '" + shown(name) + "': "),
                     "Make the archive again without such an entry");
}

void Piece::add_note(const std::string& text) {
  if (text.empty()) return;
  if (!note_.empty()) note_ += "; ";
  note_ += text;
}

}  // namespace nodestage

#include "daemon/worker/piece/dataset_sources.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <unordered_set>

#include "common/os/file.hpp"
#include "common/text/encodings.hpp"
#include "common/text/human.hpp"
#include "common/text/parsing.hpp"
#include "common/text/part_names.hpp"
#include "common/text/path_names.hpp"
#include "common/wire/wire.hpp"
#include "daemon/worker/archive/entry_filter.hpp"
#include "daemon/worker/copy/copy_file.hpp"
#include "daemon/worker/copy/copy_tree.hpp"
#include "daemon/worker/read/source.hpp"
#include "daemon/worker/tree/remove_tree.hpp"
#include "daemon/worker/write/tree_writer.hpp"

namespace nodestage {
namespace {

Error with_optional(Error error) {
  if (error.code == ENOENT && !error.advice.empty())
    error.advice += "; with the key optional, the job starts without it";
  return error;
}

Result<NewestChoice> choose(const DatasetItem& item, const FoundSources& found) {
  if (found.is_group) return newest_of_matches(item, found.paths);
  TRY_ASSIGN(const struct stat info, examine_source(item.source));
  if (!S_ISDIR(info.st_mode)) return newest_of_file(item.source);
  return newest_in_directory(item);
}

DatasetSources sources_with(const DatasetItem& item, bool is_group, NewestChoice choice) {
  DatasetSources sources{{item.source}, is_group, std::move(choice), {}};
  if (!is_group) return sources;
  sources.paths.clear();
  for (const NewestEntry& entry : sources.newest->entries) sources.paths.push_back(entry.name);
  if (item.merge == Merge::none) {
    std::sort(sources.paths.begin(), sources.paths.end());
  } else {
    std::sort(sources.paths.begin(), sources.paths.end(), is_before_by_numbers);
  }
  return sources;
}

// The last of several counts with merge=last, and otherwise makes no difference.
void keep_last_of_each(std::vector<std::string>& paths) {
  std::unordered_set<std::string> seen;
  std::reverse(paths.begin(), paths.end());
  std::erase_if(paths, [&seen](const std::string& path) { return !seen.insert(path).second; });
  std::reverse(paths.begin(), paths.end());
}

bool is_entry_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos;
}

Result<FoundSources> find_matches(const DatasetItem& item) {
  if (opened_items() != nullptr) return find_sources(opened_text(item));
  std::function<bool(const std::string& below)> excludes;
  const EntryFilter filter(0, {}, item.exclude);
  if (!item.exclude.empty())
    excludes = [&filter](const std::string& below) { return filter.excludes(below); };
  if (item.merge == Merge::none) return find_sources(item.source, excludes);
  FoundSources all;
  for (const std::string& source : all_sources(item)) {
    TRY_ASSIGN(FoundSources found, find_sources(source, excludes));
    std::sort(found.paths.begin(), found.paths.end(), is_before_by_numbers);
    all.is_group = found.is_group || item.newest == 0;  // which chooses in a directory, too
    all.specials += found.specials;
    all.paths.insert(all.paths.end(), found.paths.begin(), found.paths.end());
  }
  keep_last_of_each(all.paths);
  return all;
}

Result<FoundSources> join(FoundSources found, const std::string& source) {
  TRY_ASSIGN(JoinedParts parts, order_parts(found.paths, source));
  std::vector<PartLook> looks;
  for (const std::string& path : parts.paths) {
    TRY_ASSIGN(const struct stat info, examine_source(path));
    if (!S_ISREG(info.st_mode))
      return fault(EISDIR, shown(path) + ": is a directory, and join makes one file of files",
                   "Remove join, or write a glob for the parts of one file");
    looks.push_back({static_cast<std::uint64_t>(info.st_size), info.st_mtim.tv_sec});
  }
  found.note = left_out_parts(parts);
  add_note(found.note, doubt_of_parts(parts.paths, looks));
  found.paths = std::move(parts.paths);
  found.whole = std::move(parts.whole);
  return found;
}

// After a stream that broke off, the node before may have another one, or this node writes it.
constexpr int k_tries = 2;

std::vector<ListedName> listed(const NewestChoice* choice) {
  std::vector<ListedName> names;
  if (choice == nullptr) return names;
  for (const NewestEntry& entry : choice->entries)
    names.push_back(
        {entry.info.st_ino, static_cast<unsigned char>(IFTODT(entry.info.st_mode)), entry.name});
  return names;
}

// A copy would end in the same way. What else cannot be made here from a stream, a copy may make in
// another way: it does without hard links where the file system has a limit of them.
bool is_final(const Error& error) {
  return is_stopped(error) || error.code == ENOSPC || error.code == EDQUOT || error.code == EROFS ||
         error.code == EIO;
}

std::string growing_note(const NamedCount& growing) {
  const auto count = growing.count();
  if (count == 0) return {};
  return counted(count, "file was", "files were") +
         " being written, and the copy has what was in " + (count == 1 ? "it" : "each") +
         " then: " + shown(growing.first()) + (count == 1 ? "" : " and others");
}

std::string why_not(const Error& error, const std::string& why) {
  return why.empty() ? error.what : why;
}

Status empty(int directory) {
  TRY_ASSIGN(const Fd fd, open_at(directory, ".", O_RDONLY | O_DIRECTORY));
  return remove_tree_contents(fd.get());
}

}  // namespace

std::string opened_text(const DatasetItem& item) {
  std::string text = item.source;
  for (const std::string& source : item.also) text.append(1, '\0').append(source);
  return text;
}

Result<FoundSources> find_sources(const DatasetItem& item) {
  auto found = find_matches(item);
  return found && item.join ? join(std::move(*found), item.source) : std::move(found);
}

Result<DatasetSources> dataset_sources(const DatasetItem& item) {
  auto found = find_sources(item);
  if (item.newest == 0) {
    if (!found) return found.error();
    DatasetSources sources{std::move(found->paths),
                           found->is_group,
                           {},
                           left_out_note(found->specials, k_specials),
                           std::move(found->whole)};
    add_note(sources.note, found->note);
    return sources;
  }
  auto choice = found ? choose(item, *found) : Result<NewestChoice>(found.error());
  if (!choice) return item.optional ? choice.error() : with_optional(std::move(choice.error()));
  return sources_with(item, found->is_group, std::move(*choice));
}

// "group" or "directory", the number, and the names, each with a NUL after it; then one more NUL.
std::string text_of_choice(const DatasetSources& sources) {
  std::string text = sources.is_group ? "group" : "directory";
  text.append(1, '\0').append(std::to_string(sources.newest->among)).append(1, '\0');
  for (const NewestEntry& entry : sources.newest->entries) text.append(entry.name).append(1, '\0');
  return text.append(1, '\0');
}

std::optional<DatasetSources> sources_of_choice(const DatasetItem& item, const std::string& text) {
  std::vector<std::string> parts;
  for (std::string_view rest = text; !rest.empty();) parts.emplace_back(take_part(rest, '\0'));
  if (parts.size() < 4 || !parts.back().empty() || !text.ends_with('\0')) return {};
  NewestChoice choice;
  const bool is_group = parts[0] == "group";
  const auto among = parse_number<std::size_t>(parts[1]);
  if ((!is_group && parts[0] != "directory") || !among) return {};
  choice.among = *among;
  if (is_group) choice.start = start_of_matches(item.source);
  for (std::size_t i = 2; i + 1 < parts.size(); ++i) {
    if (!is_group && !is_entry_name(parts[i])) return {};
    choice.entries.push_back({std::move(parts[i]), {}});
  }
  return sources_with(item, is_group, std::move(choice));
}

Result<Need> DirectoryPiece::need() {
  return wanted.only == nullptr ? Need{} : need_of(*wanted.only);
}

Result<PieceLook> DirectoryPiece::look(std::chrono::milliseconds) { return PieceLook{}; }

Status DirectoryPiece::build(const PieceContext& place) {
  TRY_ASSIGN(directory, open_source_directory(path));
  TRY_ASSIGN(const Fd to, make_directory(place));
  Relayed relayed = relay != nullptr ? Relayed::again : Relayed::alone;
  for (int tries = 0; tries < k_tries && relayed == Relayed::again; ++tries) {
    TRY_ASSIGN(relayed, build_relayed(place, to.get()));
  }
  if (relayed == Relayed::done) return {};
  if (relay != nullptr) add({0, "", ""});
  return copy(place, to.get(), nullptr);
}

Result<DirectoryPiece::Relayed> DirectoryPiece::build_relayed(const PieceContext& place, int to) {
  const auto tree = begin_relayed(place);
  if (!tree) return Relayed::alone;
  TRY_ASSIGN(const auto part, tree->await_part());
  switch (part) {
    case RelayedTree::Part::alone:
      break;
    case RelayedTree::Part::writes: {
      TreeStreamWriter stream(*tree, limits.rules);
      TRY(copy(place, to, &stream));
      add(tree->close());
      return Relayed::done;
    }
    case RelayedTree::Part::reads: {
      const MeterMark mark(*meter);
      TreeStreamReader stream(*tree, limits.rules);
      const Status received = receive(stream, place, to);
      RelayedSource::Outcome outcome = tree->close();
      if (!received) broken_off_ = why_not(received.error(), std::exchange(outcome.why, ""));
      relay->add(outcome);
      if (received) return Relayed::done;
      if (!stream.has_broken() && is_final(received.error())) return received.error();
      if (!empty(to)) return received.error();
      mark.restore();
      return stream.has_broken() && !tree->is_refused() ? Relayed::again : Relayed::alone;
    }
  }
  add(tree->close());
  return Relayed::alone;
}

// This node reads the directory, perhaps since a stream has broken off.
void DirectoryPiece::add(RelayedSource::Outcome outcome) {
  if (!broken_off_.empty()) outcome.why = broken_off_;
  relay->add(outcome);
}

// Whoever cannot read the directory here gets nothing of it.
std::unique_ptr<RelayedTree> DirectoryPiece::begin_relayed(const PieceContext& place) {
  const auto readable = open_at(directory.get(), ".", O_RDONLY | O_DIRECTORY);
  struct stat info {};
  if (!readable || ::fstat(readable->get(), &info) != 0) return nullptr;
  return relay->begin_directory(path, readable->get(), info, fingerprint(place));
}

// Of all that the copy depends on, but the directory itself. Keys that a release adds mean nothing
// for one directory.
std::uint64_t DirectoryPiece::fingerprint(const PieceContext& place) const {
  WireEncoder out;
  out.u64(k_tree_stream_version);
  for (const auto& row : Option<DatasetItem>::keys)
    if (row.tree == TreeEffect::changes)
      with_value<DatasetItem>(wanted, row, [&out](const auto& value) { put_field(out, value); });
  out.u8(limits.rules.xattrs ? 1 : 0);
  out.u8(place.writes == PieceContext::Writes::taken ? 1 : 0);
  out.u8(wanted.only != nullptr ? 1 : 0);
  for (const auto& name : listed(wanted.only)) out.text(name.name);
  return fnv1a(out.data());
}

Status DirectoryPiece::copy(const PieceContext& place, int to, TreeStreamWriter* stream) {
  TRY_ASSIGN(Fd from, duplicate(directory.get()));
  const std::uint64_t written_before = meter->bytes_written;
  const EntryFilter filter(wanted.strip, wanted.include, wanted.exclude);
  XattrCopy xattrs;
  const std::vector<ListedName> only = listed(wanted.only);
  CopyTree tree(to, path,
                {filter, *meter, place.space, place.umask, limits.threads,
                 limits.rules.xattrs ? &xattrs : nullptr, wanted.only != nullptr ? &only : nullptr,
                 links_out(wanted), place.writes, stream, limits.settle});
  Status copied = tree.run(std::move(from));
  if (!copied)
    return wanted.only != nullptr ? fault_of_chosen(std::move(copied.error())) : copied.error();
  TreeSummary summary;
  summary.skipped = tree.skipped();
  summary.taken = tree.taken();
  summary.lost_xattrs = xattrs.lost;
  summary.entries = tree.notes().unreadable.note();
  nodestage::add_note(summary.entries, growing_note(tree.notes().growing));
  summary.links = tree.notes().out_links.note(links_out(wanted), "links=follow",
                                              meter->bytes_written - written_before);
  // A choice has not seen all names.
  if (wanted.only == nullptr) summary.idle_globs = filter.idle_globs();
  if (stream != nullptr) stream->end(summary);
  return finish(summary);
}

// The stream has final modes.
Status DirectoryPiece::receive(TreeStreamReader& stream, const PieceContext& place, int to) {
  TreeWriterLimits writing{limits.threads, limits.memory / 3, Escaping::fail, Special::keep};
  writing.masked = 0777;
  TreeWriter writer(to, 0, *meter, place.space, writing);
  for (;;) {
    TRY_ASSIGN(TreeRecord record, stream.next());
    switch (record.kind) {
      case TreeRecord::Kind::entry:
        TRY(writer.add(record.entry));
        break;
      case TreeRecord::Kind::data:
        meter->count_relayed(record.block.data.size());
        TRY(writer.write(record.block.offset, record.block.data));
        break;
      case TreeRecord::Kind::end:
        TRY(writer.finish());
        record.summary.lost_xattrs += writer.left_out().lost_xattrs;
        return finish(record.summary);
    }
  }
}

Status DirectoryPiece::finish(const TreeSummary& summary) {
  add_skipped(summary.lost_xattrs, k_lost_xattrs);
  add_skipped(summary.skipped, k_specials);
  add_note(printable(summary.entries));
  link_note = printable(summary.links);
  if (wanted.strip > 0) add_note("strip= has no meaning for a directory");
  if (wanted.nested > 0) add_note("nested has no meaning for a directory");
  if (wanted.extract == Extract::yes) add_note("extract= has no meaning for a directory");
  idle_globs = printable(summary.idle_globs);
  const EntryFilter filter(wanted.strip, wanted.include, wanted.exclude);
  return check_taken(
      path, wanted, filter.takes_all() ? 0 : 1, summary.taken,
      "Look at its names with: find " + shell_word(shown(path)) + " -printf '%P\\n'");
}

}  // namespace nodestage

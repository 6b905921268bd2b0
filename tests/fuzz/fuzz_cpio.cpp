// A cpio, read by our reader and by libarchive's: what both take as a whole has the same entries
// with the same data. (Each may refuse what the other takes.) Where they differ on purpose: which
// names are one file, what is behind a trailer with a filled name, and data of what is no file; and
// ours goes on where another cpio follows, with a note.
#include "daemon/worker/archive/cpio_entries.hpp"
#include "two_readers.hpp"

using namespace nodestage;

namespace {

bool is_file(const SeenEntry& seen) {
  return seen.entry.kind == Entry::Kind::file || seen.entry.kind == Entry::Kind::hard_link;
}

bool is_same(const SeenEntry& ours, const SeenEntry& theirs) {
  if (ours.entry.name != theirs.entry.name) return false;
  if (ours.entry.mode != (theirs.entry.mode & 07777U)) return false;
  if (theirs.entry.kind == Entry::Kind::hard_link)
    return !is_file(ours) || (ours.entry.size == theirs.entry.size && ours.hash == theirs.hash);
  if (ours.entry.kind == Entry::Kind::symlink && ours.entry.link != theirs.entry.link) return false;
  if (is_file(ours) != is_file(theirs)) return false;
  return is_file(ours) ? ours.entry.size == theirs.entry.size && ours.hash == theirs.hash
                       : ours.entry.kind == theirs.entry.kind;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const MemoryFile file(text_of(data, size));
  const SeenArchive ours = read_by(Reader::ours, Container::cpio, open_cpio_entries, file);
  for (const SeenEntry& seen : ours.entries)
    require(seen.end <= seen.entry.size && (is_file(seen) || seen.end == 0));
  if (!ours.is_whole) return 0;
  const SeenArchive theirs = read_by(Reader::libarchive, Container::cpio, open_cpio_entries, file);
  if (!theirs.is_whole) return 0;
  const std::size_t both = std::min(ours.entries.size(), theirs.entries.size());
  for (std::size_t i = 0; i < both; ++i) require(is_same(ours.entries[i], theirs.entries[i]));
  require(both == ours.entries.size() || !ours.note.empty());
  require(both == theirs.entries.size() || theirs.entries[both].entry.name == "TRAILER!!!");
  return 0;
}

// A cpio, read by our reader and by libarchive's: what both take as a whole has the same entries
// with the same data. (Each may refuse what the other takes.) Where they differ on purpose: which
// names are one file, what is behind a trailer with a filled name, and data of what is no file.
#include "daemon/worker/archive_entries.hpp"
#include "daemon/worker/cpio_entries.hpp"
#include "reading.hpp"

using namespace nodestage;

namespace {

enum class Reader { ours, libarchive };

SeenArchive read_by(Reader reader, const MemoryFile& file) {
  Reading reading;
  auto source = Source::open(file.path(), reading.meter);
  require(static_cast<bool>(source));
  auto decoder = Decoder::open(*source, {1, std::size_t{32} << 20});
  if (!decoder) return {};
  if (reader == Reader::ours) return read_archive(*open_cpio_entries(*decoder));
  const auto entries = open_stream_entries(Container::cpio, *decoder);
  return entries ? read_archive(**entries) : SeenArchive();
}

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
  const SeenArchive ours = read_by(Reader::ours, file);
  for (const SeenEntry& seen : ours.entries)
    require(seen.end <= seen.entry.size && (is_file(seen) || seen.end == 0));
  if (!ours.is_whole) return 0;
  const SeenArchive theirs = read_by(Reader::libarchive, file);
  if (!theirs.is_whole) return 0;
  require(ours.entries.size() <= theirs.entries.size());
  for (std::size_t i = 0; i < ours.entries.size(); ++i)
    require(is_same(ours.entries[i], theirs.entries[i]));
  require(ours.entries.size() == theirs.entries.size() ||
          theirs.entries[ours.entries.size()].entry.name == "TRAILER!!!");
  return 0;
}

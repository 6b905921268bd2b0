// A tar, read by our reader and by libarchive's: what both take as a whole has the same entries
// with the same data. (Each may refuse what the other takes.)
#include <algorithm>

#include "daemon/worker/archive/archive_entries.hpp"
#include "reading.hpp"

using namespace nodestage;

namespace {

bool is_same(const SeenEntry& a, const SeenEntry& b) {
  return a.entry.name == b.entry.name && a.entry.kind == b.entry.kind &&
         a.entry.link == b.entry.link && a.hash == b.hash &&
         (a.entry.kind != Entry::Kind::file || a.entry.size == b.entry.size);
}

// A hard link to nothing, which EntryLimits refuses and libarchive takes for a file.
bool is_link_to_nothing(const SeenEntry& seen) {
  return seen.entry.kind == Entry::Kind::hard_link && seen.entry.link.empty();
}

SeenArchive read_by_us(Source& source) {
  auto decoder = Decoder::open(source, {1, std::size_t{32} << 20});
  return decoder ? read_archive(*open_tar_entries(*decoder)) : SeenArchive();
}

SeenArchive read_by_libarchive(Source& source) {
  const auto entries = open_file_entries(Container::tar, source);
  return entries ? read_archive(**entries) : SeenArchive();
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const MemoryFile file(text_of(data, size));
  Reading reading;
  auto source = Source::open(file.path(), reading.meter);
  require(static_cast<bool>(source));
  const SeenArchive ours = read_by_us(*source);
  if (!ours.is_whole || std::any_of(ours.entries.begin(), ours.entries.end(), is_link_to_nothing))
    return 0;
  const SeenArchive theirs = read_by_libarchive(*source);
  if (!theirs.is_whole) return 0;
  require(ours.entries.size() == theirs.entries.size());
  for (std::size_t i = 0; i < ours.entries.size(); ++i)
    require(is_same(ours.entries[i], theirs.entries[i]));
  return 0;
}

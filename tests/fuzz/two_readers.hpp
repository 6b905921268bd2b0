// One archive that is a stream, read by our reader of its format and by libarchive's.
#pragma once

#include <memory>

#include "daemon/worker/archive/archive_entries.hpp"
#include "reading.hpp"

enum class Reader { ours, libarchive };

using OpenOurs = std::unique_ptr<nodestage::Entries> (*)(nodestage::Decoder&);

inline SeenArchive read_by(Reader reader, nodestage::Container container, OpenOurs open_ours,
                           const MemoryFile& file) {
  Reading reading;
  auto source = nodestage::Source::open(file.path(), reading.meter);
  require(static_cast<bool>(source));
  auto decoder = nodestage::Decoder::open(*source, {1, std::size_t{32} << 20});
  if (!decoder) return {};
  if (reader == Reader::ours) return read_archive(*open_ours(*decoder));
  const auto entries = nodestage::open_stream_entries(container, *decoder);
  return entries ? read_archive(**entries) : SeenArchive();
}

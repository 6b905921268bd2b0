// Piece::look(): does the start of what build() would do, and writes nothing.
#include <algorithm>
#include <vector>

#include "daemon/worker/archive/archive_contents.hpp"
#include "daemon/worker/piece/piece.hpp"

namespace nodestage {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t k_block = std::size_t{1} << 20;

// Reads one file as it is. Returns whether that was all of it.
Result<bool> read_plainly(Source& source, Clock::time_point end) {
  std::vector<std::byte> block(k_block);
  while (Clock::now() < end) {
    TRY_ASSIGN(const std::size_t count, source.read(block));
    if (count < block.size()) return true;
  }
  return false;
}

// Returns whether it reached the archive's end.
Result<bool> read_entries(Entries& entries, Clock::time_point end, PieceLook& look) {
  while (Clock::now() < end) {
    TRY_ASSIGN(const Entry* entry, entries.next());
    if (entry == nullptr) return true;
    if (entry->kind != Entry::Kind::directory) ++look.files;
    std::uint64_t left = entry->kind == Entry::Kind::file ? entry->size : 0;
    bool has_more = true;
    while (has_more && Clock::now() < end) {
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

Result<PieceLook> Piece::look(std::chrono::milliseconds limit) {
  PieceLook look;
  const auto begun = Clock::now();
  const auto end = begun + limit;
  if (form_ == Form::archive) TRY(open_entries());
  const ArchiveContents* contents = form_ == Form::archive ? entries_->contents() : nullptr;
  if (contents != nullptr) {
    look.index = PieceLook::Index{0, contents->total_size(), contents->is_plain()};
    for (std::size_t i = 0; i < contents->size(); ++i)
      look.index->files += contents->member(i).name.ends_with('/') ? 0U : 1U;
  }
  if (form_ == Form::archive && contents == nullptr) {
    const std::uint64_t before = meter_->bytes_read;
    TRY_ASSIGN(look.is_whole, read_entries(*entries_, end, look));
    // libarchive reads a 7z itself, from its start, after the headers at its end.
    look.position = is_stream(container_) ? decoder_->position() : meter_->bytes_read - before;
    if (look.is_whole || look.position > source_->size()) look.position = source_->size();
    look.threads = decoder_->threads();
  } else if (source_) {
    TRY_ASSIGN(look.is_whole, read_plainly(*source_, end));
    look.position = source_->position();
  }
  const auto spent = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begun);
  look.spent = std::max(spent, std::chrono::milliseconds(1));
  return look;
}

}  // namespace nodestage

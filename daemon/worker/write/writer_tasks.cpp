#include "daemon/worker/write/writer_tasks.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_batch_entries = 64;
constexpr std::size_t k_batch_bytes = std::size_t{1} << 20U;

Result<bool> make(EntryMaker& maker, const Meter& meter, const std::string& parent,
                  const NewEntry& entry) {
  TRY(meter.check());
  return maker.make(parent, entry);
}

}  // namespace

void EntryBatch::put(NewEntry entry, const Slice& memory, const Amount& amount) {
  if (!memory.empty() && (memories_.empty() || !memories_.back().shares_memory_with(memory))) {
    memories_.push_back(memory);
  }
  if (entries_.empty()) entries_.reserve(k_batch_entries);
  bytes += (entry.from != nullptr ? 0 : memory.size()) + entry.link.size() + bytes_of(entry.xattrs);
  to_fetch_ += entry.from != nullptr ? entry.size : 0;
  amount_ = amount_ + amount;
  entries_.push_back(std::move(entry));
}

bool EntryBatch::is_full() const {
  return entries_.size() >= k_batch_entries || bytes + to_fetch_ >= k_batch_bytes ||
         memories_.size() >= k_memories;
}

std::optional<WriterFault> EntryBatch::run(EntryMaker& maker) {
  std::uint64_t written = 0;
  std::uint64_t files = 0;
  for (const NewEntry& entry : entries_) {
    const auto made = make(maker, meter_, parent_, entry);
    if (!made) return WriterFault{made.error(), path_in(parent_, entry.name), entry.number};
    if (!*made) continue;
    ++files;
    written += entry.data.data.size();
    for (const auto& part : entry.more) written += part.data.size();
  }
  meter_.bytes_written += written;
  meter_.files += files;
  space_.wrote(amount_);
  return std::nullopt;
}

std::optional<WriterFault> LinkBatch::run(EntryMaker& maker) {
  std::uint64_t files = 0;
  for (const auto& [parent, entry] : links_) {
    const auto made = make(maker, meter_, parent, entry);
    if (!made) return WriterFault{made.error(), path_in(parent, entry.name), entry.number};
    if (*made) ++files;
  }
  meter_.files += files;
  space_.wrote({0, links_.size()});
  return std::nullopt;
}

std::optional<WriterFault> LargeFile::release(const EntryMaker& maker) {
  if (--holders_ > 0) return std::nullopt;
  Status completed = maker.complete(std::move(file_), path_, entry_, end_);
  if (!completed) return WriterFault{std::move(completed.error()), path_, entry_.number};
  return std::nullopt;
}

std::optional<WriterFault> PartOfFile::run(EntryMaker& maker) {
  Status written = way_.meter.check();
  if (written) {
    written = write_at(file_->fd(), offset_, data_.bytes());
    if (!written) written = way_.space.explain(file_->path(), written.error().code);
  }
  if (!written) {
    return WriterFault{std::move(written.error()), file_->path(), file_->entry().number};
  }
  way_.meter.bytes_written += data_.size();
  way_.space.wrote(way_.amount);
  return file_->release(maker);
}

std::optional<WriterFault> DirectoryBatch::run(EntryMaker& maker) {
  for (const auto& [path, attributes] : directories_) {
    Status set = maker.set_attributes(*path, *attributes);
    if (!set) return WriterFault{std::move(set.error()), *path, 0};
  }
  return std::nullopt;
}

}  // namespace nodestage

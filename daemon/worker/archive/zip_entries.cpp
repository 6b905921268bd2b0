
#include <climits>

#include "common/text/human.hpp"
#include "daemon/worker/archive/archive_entries.hpp"
#include "daemon/worker/archive/zip_member.hpp"
#include "daemon/worker/tree/file_data.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_block = std::size_t{1} << 20;
// For members that this object's own thread reads: the blocks that may be on their way to writers.
constexpr std::size_t k_blocks = 32;
// Stored members of at least this size are divided among several writers.
constexpr std::uint64_t k_large = 8 * k_block;

class ZipEntries final : public Entries, private EntryData {
 public:
  ZipEntries(Source& source, ZipIndex index)
      : source_(source),
        index_(std::move(index)),
        reads_(source_, index_),
        memory_(k_block, k_blocks) {}

  Result<Entry*> next() override;
  Result<Block> read() override;
  [[nodiscard]] const EntryData* data() const override { return is_fetched_ ? this : nullptr; }
  [[nodiscard]] std::uint64_t id() const override { return current_; }
  [[nodiscard]] const ZipIndex* contents() const override { return &index_; }

 private:
  Status write(std::uint64_t id, FileSink& sink) const override;
  Status read_link();
  void begin_stream();
  [[nodiscard]] BufferPool::Buffer take_buffer();
  [[nodiscard]] bool is_for_one_thread() const;

  Source& source_;
  const ZipIndex index_;
  mutable ZipReads reads_;
  BufferPool memory_;
  std::size_t next_ = 0;
  std::size_t current_ = 0;
  Entry entry_;
  bool is_fetched_ = false;
  std::optional<ZipMember> streamed_;
  std::uint64_t streamed_bytes_ = 0;
};

// A file that one thread must read alone while several write: it is most of the archive, or it is
// read fast because nothing has to be decompressed.
bool ZipEntries::is_for_one_thread() const {
  if (entry_.kind != Entry::Kind::file || entry_.size < k_large) return false;
  return index_.record(current_).method == ZipRecord::stored ||
         entry_.size > index_.total_size() / 2;
}

Result<Entry*> ZipEntries::next() {
  streamed_.reset();
  is_fetched_ = false;
  if (next_ == index_.size()) return static_cast<Entry*>(nullptr);
  current_ = next_++;
  entry_ = index_.record(current_).entry();
  if (entry_.kind == Entry::Kind::symlink) TRY(read_link());
  if (is_for_one_thread()) {
    begin_stream();
  } else {
    is_fetched_ = entry_.kind == Entry::Kind::file;
  }
  return &entry_;
}

Status ZipEntries::read_link() {
  TRY_ASSIGN(const Slice start, reads_.member(current_));
  ZipMember member(source_, index_, current_);
  if (start.empty() || member.size() == 0 || member.size() >= PATH_MAX) {
    return damaged_zip(source_, "the symbolic link '" + shown(entry_.name) +
                                    "' has an empty target, or one that is too long");
  }
  TRY(member.open(start.bytes()));
  TRY_ASSIGN(const Bytes text, member.whole());
  entry_.link.assign(reinterpret_cast<const char*>(text.data()), text.size());
  if (entry_.link.find('\0') == std::string::npos) return {};
  return damaged_zip(
      source_, "the target of the symbolic link '" + shown(entry_.name) + "' contains a NUL byte");
}

void ZipEntries::begin_stream() {
  streamed_.emplace(source_, index_, current_);
  streamed_bytes_ = 0;
}

// A small member does not occupy a large block while it waits for its writer.
BufferPool::Buffer ZipEntries::take_buffer() {
  if (streamed_->size() >= k_block) return memory_.take();
  const std::size_t bytes = streamed_->size() + 1;  // more than there is, so that its end is seen
  const std::shared_ptr<std::byte[]> memory(new std::byte[bytes]);
  return {memory, {memory.get(), bytes}};
}

// Whoever begins to read a file here reads all of it, and its data() are not fetched then.
Result<Block> ZipEntries::read() {
  if (std::exchange(is_fetched_, false)) begin_stream();
  if (!streamed_) return Block{};
  if (streamed_bytes_ == 0) TRY(streamed_->open());
  const BufferPool::Buffer buffer = take_buffer();
  TRY_ASSIGN(const std::size_t count, streamed_->next(buffer.memory));
  const std::uint64_t offset = std::exchange(streamed_bytes_, streamed_bytes_ + count);
  if (count < buffer.memory.size()) streamed_.reset();
  return Block{offset, buffer.filled(count)};
}

Status ZipEntries::write(std::uint64_t id, FileSink& sink) const {
  TRY_ASSIGN(const Slice start, reads_.member(id));
  ZipMember member(source_, index_, id);
  TRY(member.open(start.bytes()));
  if (member.is_small()) {
    TRY_ASSIGN(const Bytes data, member.whole());
    return data.empty() ? Status() : sink.write(0, data);
  }
  thread_local const std::unique_ptr<std::byte[]> memory(new std::byte[k_block]);
  const std::span block(memory.get(), k_block);
  for (std::uint64_t offset = 0;;) {
    TRY_ASSIGN(const std::size_t count, member.next(block));
    if (count > 0) TRY(sink.write(offset, block.first(count)));
    if (count < k_block) return {};
    offset += count;
  }
}

// libarchive reads no zip that zip has split.
Error odd_split_zip(const Source& source, const ZipIndex& index) {
  for (std::size_t i = 0; i < index.size(); ++i) {
    const ZipRecord record = index.record(i);
    if (const Status readable = record.check_readable(); !readable)
      return with_prefix(readable.error(),
                         shown(source.path()) + ": entry '" + shown(record.name()) + "': ");
  }
  return fault(
      ENOTSUP,
      shown(source.path()) + ": zip has split it, and its members use a rare compression method",
      "Join it once: zip -s 0 " + shell_word(shown(source.path())) + " --out WHOLE.zip");
}

}  // namespace

Result<std::unique_ptr<Entries>> open_zip_entries(Source& source) {
  TRY_ASSIGN(ZipIndex index, read_zip_index(source));
  if (!index.is_plain() && index.is_split()) return odd_split_zip(source, index);
  if (!index.is_plain()) return open_file_entries(Container::zip, source, std::move(index));
  return Result<std::unique_ptr<Entries>>(std::make_unique<ZipEntries>(source, std::move(index)));
}

}  // namespace nodestage

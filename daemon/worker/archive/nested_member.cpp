#include "daemon/worker/archive/nested_member.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "common/text/human.hpp"
#include "daemon/worker/basis/task_crew.hpp"
#include "daemon/worker/tree/file_data.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_round_bytes = 512;                 // Decoder::next()
constexpr std::size_t k_looked_at = std::size_t{1} << 20;  // to choose how it is decoded
// Of compressed data that are kept until their beginning is decoded.
constexpr std::size_t k_most_kept = std::size_t{16} << 20;
// Holes of a sparse member are read as zeros. More of them are a bomb.
constexpr std::uint64_t k_most_holes = std::uint64_t{1} << 30;

// A codec may hold several.
Result<Slice> copied_next(MemberBytes& bytes) {
  TRY_ASSIGN(const Slice slice, bytes.next());
  return Slice::copy_of(slice.bytes());
}

// A member as a decoder's threads take it: in copies, as above.
class MemberBlocks final : public InputBlocks {
 public:
  MemberBlocks(MemberBytes& bytes, std::vector<Slice> first)
      : bytes_(bytes), first_(first.begin(), first.end()) {}

  Status start() override { return {}; }
  Result<Slice> next() override {
    if (is_stopped_) return stopped();
    if (!fault_) return fault_.error();
    if (first_.empty()) {
      auto slice = copied_next(bytes_);
      if (!slice) fault_ = slice.error();
      return slice;
    }
    const Slice first = std::move(first_.front());
    first_.pop_front();
    return first;
  }
  void stop() override { is_stopped_ = true; }

 private:
  MemberBytes& bytes_;
  std::deque<Slice> first_;
  Status fault_;  // is repeated
  std::atomic<bool> is_stopped_ = false;
};

constexpr const char* k_copy = "a member's copy";

Result<Fd> make_unnamed(const NestedRoom& room) {
  constexpr const char* k_name = ".nodestage-nested.tmp";
  TRY(room.space.take({0, 1}));
  room.space.wrote({0, 1});
  if (auto fd = open_at(room.dir_fd, ".", O_TMPFILE | O_RDWR, 0600)) return fd;
  auto fd = open_at(room.dir_fd, k_name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
  if (!fd) return room.space.explain(k_name, fd.error().code);
  if (::unlinkat(room.dir_fd, k_name, 0) != 0) return room.space.explain(k_name, errno);
  return fd;
}

}  // namespace

Result<Block> MemberBytes::block() {
  Block block;
  if (!again_.empty()) {
    block = std::move(again_.front());
    again_.pop_front();
  } else {
    TRY_ASSIGN(block, read_());
  }
  if (!keeps_) return block;
  // The outer archive's reader waits for its blocks if too many are held.
  if (kept_bytes_ > k_member_start) block.data = Slice::copy_of(block.data.bytes());
  kept_bytes_ += block.data.size();
  if (kept_bytes_ > k_most_kept)
    return Error{E2BIG, "the beginning of its compressed data cannot be decoded"};
  kept_.push_back(block);
  return block;
}

Result<Slice> MemberBytes::next() {
  static const std::byte k_zeros[std::size_t{64} << 10] = {};
  if (block_.data.empty() && !has_ended_) {
    TRY_ASSIGN(block_, block());
    has_ended_ = block_.data.empty();
    if (has_ended_) block_.offset = std::max(size_, at_);
    if (block_.offset < at_) return Error{EINVAL, "its data are not in order"};
  }
  if (at_ < block_.offset) {
    const auto count = std::min<std::uint64_t>(block_.offset - at_, sizeof k_zeros);
    at_ += count;
    holes_ += count;
    if (holes_ > k_most_holes)
      return Error{E2BIG, "it has more than " + human_bytes(k_most_holes) + " of holes"};
    return Slice(nullptr, Bytes(k_zeros, count));
  }
  at_ += block_.data.size();
  return std::exchange(block_.data, {});
}

Result<std::vector<std::byte>> MemberBytes::start(std::size_t bytes) {
  std::vector<std::byte> start;
  while (start.size() < bytes) {
    TRY_ASSIGN(const Slice slice, next());
    if (slice.empty()) break;
    const Bytes part = slice.bytes().first(std::min(slice.size(), bytes - start.size()));
    start.insert(start.end(), part.begin(), part.end());
  }
  rewind();
  return start;
}

void MemberBytes::rewind() {
  again_.insert(again_.begin(), kept_.begin(), kept_.end());
  kept_.clear();
  kept_bytes_ = 0;
  block_ = {};
  at_ = holes_ = 0;
  has_ended_ = false;
}

Result<Slice> PlainMember::next() {
  for (;;) {
    TRY_ASSIGN(Slice slice, bytes_.next());
    position_ += slice.size();
    if (slice.empty()) return Slice::copy_of(std::exchange(rest_, {}));
    if (!rest_.empty()) {
      rest_.insert(rest_.end(), slice.bytes().begin(), slice.bytes().end());
      slice = Slice::copy_of(rest_);
    }
    const std::size_t round = slice.size() / k_round_bytes * k_round_bytes;
    const Bytes rest = slice.bytes().subspan(round);
    rest_.assign(rest.begin(), rest.end());
    if (round > 0) return slice.part(0, round);
  }
}

CompressedMember::CompressedMember(MemberBytes& bytes, BufferPool& pool,
                                   const Decoder::Stream& about)
    : pool_(pool),
      input_(0, [&bytes] { return copied_next(bytes); }),
      faults_(about.path, about.size, about.coding),
      reader_(input_, about.coding, make_codec(about.coding), faults_) {}

Result<Slice> CompressedMember::next() {
  if (!first_.empty()) return std::exchange(first_, {});
  Result<Slice> slice = Slice();
  TRY(guarded([&] { slice = decode(); }));
  return slice;
}

Result<Slice> CompressedMember::decode() {
  if (!reader_.fault()) return reader_.fault().error();
  const BufferPool::Buffer buffer = pool_.take();
  const std::size_t bytes = reader_.fill(buffer.memory);
  if (bytes > 0) return buffer.filled(bytes);
  if (!reader_.fault()) return reader_.fault().error();
  return Slice();
}

Result<std::unique_ptr<Decoding>> start_member_decoding(MemberBytes& bytes,
                                                        const Decoder::Stream& about,
                                                        const DecoderLimits& limits) {
  const auto blocks = [&bytes](std::vector<Slice> first, const ReadAheadLimits&) {
    return std::make_unique<MemberBlocks>(bytes, std::move(first));
  };
  DecoderInput input{about.path, about.size, {}, blocks};
  bytes.rewind();
  bytes.keep_no_more();
  for (std::size_t held = 0; held < k_looked_at; held += input.first.back().size()) {
    TRY_ASSIGN(Slice slice, copied_next(bytes));
    if (slice.empty()) break;
    input.first.push_back(std::move(slice));
  }
  Result<std::unique_ptr<Decoding>> started = Error{};
  TRY(guarded([&] { started = start_decoding(std::move(input), about.coding, limits); }));
  return started;
}

Result<Fd> MemberCopy::take(MemberBytes& bytes, const NestedRoom& room,
                            const std::function<Status(std::uint64_t)>& within) {
  Space& space = room.space;
  if (!fd_) {
    TRY_ASSIGN(fd_, make_unnamed(room));
  }
  if (::ftruncate(fd_.get(), 0) != 0) return space.explain(k_copy, errno);
  for (std::uint64_t at = 0;;) {
    TRY_ASSIGN(const Slice slice, bytes.next());
    if (slice.empty()) break;
    TRY(within(slice.size()));
    const std::uint64_t most = std::max(most_, in_blocks(at + slice.size()));
    const Amount more{most - std::exchange(most_, most), 0};
    TRY(space.take(more));
    if (const auto written = write_at(fd_.get(), at, slice.bytes()); !written)
      return space.explain(k_copy, written.error().code);
    space.wrote(more);
    at += slice.size();
  }
  Fd again(::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0));
  return again ? Result<Fd>(std::move(again)) : space.explain(k_copy, errno);
}

Status MemberCopy::empty(Space& space) {
  if (most_ == 0) return {};
  if (::ftruncate(fd_.get(), 0) != 0) return space.explain(k_copy, errno);
  space.removed(std::exchange(most_, 0));
  return {};
}

}  // namespace nodestage

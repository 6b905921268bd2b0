#include "daemon/worker/archive/zip_member.hpp"

#include <algorithm>
#include <atomic>

#include "daemon/worker/decode/codec.hpp"
#include "daemon/worker/gzip/inflater.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_max_extra = 65535;
constexpr std::uint64_t k_large_member = ZipReads::k_run_bytes / 2;
// Other bytes between members are read along if they are fewer.
constexpr std::uint64_t k_gap = 128 * 1024;
// More than threads can use at once: the threads are the bound, not this number.
constexpr std::size_t k_buffers = 4096;

// The latest end of the member's data; the local header's length is not known yet.
std::uint64_t latest_end(const ZipIndex& index, std::size_t member) {
  const ZipRecord record = index.record(member);
  return std::min(index.end(member), record.offset + k_local_bytes + record.raw_name.size() +
                                         k_max_extra + record.packed);
}

std::uint64_t next_serial() {
  static std::atomic<std::uint64_t> last = 0;
  return ++last;
}

using namespace std::string_view_literals;

constexpr std::size_t k_member_block = std::size_t{1} << 20;

std::string_view chars_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// What a thread needs again and again and is too expensive to make for each file.
struct Tools {
  Inflater inflater;
  std::unique_ptr<Codec> deflate64;  // made for the first member that needs it
  std::unique_ptr<std::byte[]> in{new std::byte[k_member_block]};
  std::unique_ptr<std::byte[]> out{new std::byte[k_member_block]};
};

Tools& tools() {
  thread_local Tools tools;
  return tools;
}

// Whether a number agrees. A local header with a data descriptor or zip64 field may leave it out.
bool agrees(std::uint64_t local, std::uint64_t stated) { return local == 0 || local == stated; }

// What the local header and the directory disagree on; "" for nothing. `local` has the whole name.
std::string disagreement(std::string_view local, std::string_view extra, const ZipRecord& record) {
  if (local.substr(k_local_bytes, record.raw_name.size()) != record.raw_name) return "name";
  if (little_endian<std::uint16_t>(local, 8) != record.method) return "compression method";
  const unsigned flags = little_endian<std::uint16_t>(local, 6) ^ record.flags;
  if ((flags & ZipRecord::encrypted) != 0) return "encryption";
  if (!agrees(little_endian<std::uint32_t>(local, 14), record.crc)) return "checksum";
  std::uint64_t packed = little_endian<std::uint32_t>(local, 18);
  std::uint64_t size = little_endian<std::uint32_t>(local, 22);
  if (const auto wide = find_extra(extra, 1)) static_cast<void>(widen(*wide, {&size, &packed}));
  if (!agrees(packed, record.packed)) return "compressed size";
  return agrees(size, record.size) ? "" : "size";
}

}  // namespace

ZipReads::ZipReads(const Source& source, const ZipIndex& index)
    : source_(source), index_(index), serial_(next_serial()), memory_(k_run_bytes, k_buffers) {
  plan_runs();
  was_read_.resize(runs_.size());
}

void ZipReads::plan_runs() {
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < index_.size(); ++i) {
    const std::uint64_t offset = index_.offset(i);
    const std::uint64_t member_end = latest_end(index_, i);
    const bool is_large = member_end - offset > k_large_member;
    const bool joins = !is_large && !runs_.empty() && runs_.back().size != 0 &&
                       offset - end <= k_gap && member_end - runs_.back().offset <= k_run_bytes;
    if (!joins) runs_.push_back({offset, 0, i});
    if (!is_large) runs_.back().size = static_cast<std::uint32_t>(member_end - runs_.back().offset);
    end = member_end;
  }
}

std::size_t ZipReads::run_of(std::size_t member) const {
  const auto after = std::upper_bound(runs_.begin(), runs_.end(), member,
                                      [](std::size_t m, const Run& run) { return m < run.first; });
  return static_cast<std::size_t>(after - runs_.begin()) - 1;
}

Result<Slice> ZipReads::member(std::size_t member) {
  const std::size_t run = run_of(member);
  if (runs_[run].size == 0) return Slice();
  thread_local Held held;
  if (held.reads != serial_ || held.run != run) {
    held = {};
    TRY_ASSIGN(Slice slice, slice_of(run));
    held = {serial_, run, std::move(slice)};
  }
  const std::uint64_t skipped = index_.offset(member) - runs_[run].offset;
  const std::uint64_t size = index_.end(member) - index_.offset(member);
  if (skipped >= held.slice.size()) return damaged_zip(source_, "the file has become shorter");
  return held.slice.part(skipped, std::min<std::uint64_t>(size, held.slice.size() - skipped));
}

// Other threads that need the same run wait for the one that reads it.
Result<Slice> ZipReads::slice_of(std::size_t run) {
  const auto kept = this->kept(run);
  const std::lock_guard lock(kept->mutex);
  if (!kept->is_read) TRY(read(*kept));
  return kept->slice;
}

std::shared_ptr<ZipReads::Kept> ZipReads::kept(std::size_t run) {
  const std::lock_guard lock(mutex_);
  const auto known = std::find_if(kept_.begin(), kept_.end(),
                                  [run](const auto& kept) { return kept->run == run; });
  if (known != kept_.end()) {
    std::rotate(known, std::next(known), kept_.end());
    return kept_.back();
  }
  if (kept_.size() == k_runs_kept) kept_.erase(kept_.begin());
  kept_.push_back(std::make_shared<Kept>());
  kept_.back()->run = run;
  return kept_.back();
}

Result<std::size_t> ZipReads::read_again(std::uint64_t offset, std::span<std::byte> into) const {
  static const std::atomic<bool> k_never = false;
  TRY_ASSIGN(const Source::Fetched fetched, source_.fetch_at(offset, into, k_never));
  return fetched.bytes;
}

// The meter counts each run once.
Status ZipReads::read(Kept& kept) {
  const Run& run = runs_[kept.run];
  const BufferPool::Buffer buffer = memory_.take();
  const auto memory = buffer.memory.first(run.size);
  const bool is_known = was_read(kept.run);
  TRY_ASSIGN(const std::size_t count,
             is_known ? read_again(run.offset, memory) : source_.read_at(run.offset, memory));
  kept.slice = buffer.filled(count);
  kept.is_read = true;
  return {};
}

bool ZipReads::was_read(std::size_t run) {
  const std::lock_guard lock(mutex_);
  const bool before = was_read_[run];
  was_read_[run] = true;
  return before;
}

Status ZipMember::open(Bytes start) {
  if (start.empty()) {
    const std::span block(tools().in.get(), std::min<std::uint64_t>(room_, k_member_block));
    TRY_ASSIGN(const std::size_t count, source_.read_at(record_.offset, block));
    start = block.first(count);
  }
  TRY_ASSIGN(const std::size_t header, header_size(chars_of(start)));
  if (room_ - header < record_.packed) return damaged("the entry's data overlap what follows them");
  const Bytes data = start.subspan(header);
  at_hand_ = data.first(std::min<std::uint64_t>(data.size(), record_.packed));
  next_ = record_.offset + header + at_hand_.size();
  left_ = record_.packed - at_hand_.size();
  if (record_.method == ZipRecord::stored) {
    return record_.size == record_.packed ? Status() : Status(wrong_size());
  }
  if (record_.method == ZipRecord::deflated64) {
    if (!tools().deflate64) tools().deflate64 = make_deflate64_codec();
    return tools().deflate64->begin_frame();
  }
  tools().inflater.begin(Inflater::Trailer::none);
  return {};
}

Result<std::size_t> ZipMember::header_size(std::string_view local) const {
  if (local.size() < k_local_bytes || !local.starts_with("PK\3\4"sv)) {
    return damaged("no entry starts where the directory says");
  }
  const std::size_t name_size = little_endian<std::uint16_t>(local, 26);
  const std::size_t size = k_local_bytes + name_size + little_endian<std::uint16_t>(local, 28);
  if (local.size() < size || room_ < size) {
    return damaged("the entry's header overlaps what follows it");
  }
  std::string what = "name";
  if (name_size == record_.raw_name.size()) {
    what = disagreement(local, local.substr(0, size).substr(k_local_bytes + name_size), record_);
  }
  if (what.empty()) return size;
  return damaged("the entry's own header and the archive's directory disagree on its " + what);
}

bool ZipMember::is_small() const {
  return left_ == 0 && (record_.method == ZipRecord::stored || record_.size < k_member_block);
}

Result<Bytes> ZipMember::whole() {
  if (record_.method == ZipRecord::deflated64) {
    const std::span out(tools().out.get(), record_.size + 1);  // one more than next() fills
    TRY_ASSIGN(const std::size_t count, next(out));
    return Bytes(out.first(count));
  }
  Bytes data = at_hand_;
  if (record_.method != ZipRecord::stored) {
    const std::span out(tools().out.get(), record_.size);
    TRY(inflate_all(out));
    data = out;
  }
  crc_ = crc32_of(data);
  given_ = data.size();
  TRY(check_end());
  return data;
}

Status ZipMember::inflate_all(std::span<std::byte> out) {
  Inflater& inflater = tools().inflater;
  inflater.give(at_hand_);
  inflater.set_room(out);
  const Inflater::State state = inflater.run_whole();
  if (state == Inflater::State::no_room) return wrong_size();
  if (state == Inflater::State::no_input) return wrong_packed_size();
  if (state != Inflater::State::ended) return damaged("invalid compressed data");
  if (inflater.input_left() != 0) return wrong_packed_size();
  return inflater.room_left() == 0 ? Status() : Status(wrong_size());
}

Result<std::size_t> ZipMember::next(std::span<std::byte> out) {
  TRY_ASSIGN(const std::size_t count, unpack(out));
  if (count > record_.size - given_) return wrong_size();
  crc_ = crc32_of(out.first(count), crc_);
  given_ += count;
  if (count < out.size()) TRY(check_end());
  return count;
}

Status ZipMember::check_end() const {
  if (given_ != record_.size) return wrong_size();
  return crc_ == record_.crc ? Status() : Status(damaged("wrong checksum (CRC-32)"));
}

Result<std::size_t> ZipMember::unpack(std::span<std::byte> out) {
  if (record_.method == ZipRecord::stored) return copy(out);
  return record_.method == ZipRecord::deflated64 ? inflate64(out) : inflate(out);
}

Result<std::size_t> ZipMember::copy(std::span<std::byte> out) {
  const std::size_t count = std::min(out.size(), at_hand_.size());
  std::copy_n(at_hand_.begin(), count, out.begin());
  at_hand_ = at_hand_.subspan(count);
  const auto rest = out.subspan(count).first(std::min<std::uint64_t>(out.size() - count, left_));
  if (rest.empty()) return count;
  TRY_ASSIGN(const std::size_t more, source_.read_at(next_, rest));
  if (more < rest.size()) return damaged("the file has become shorter");
  next_ += more;
  left_ -= more;
  return count + more;
}

Result<Bytes> ZipMember::next_packed() {
  if (!at_hand_.empty() || left_ == 0) return std::exchange(at_hand_, Bytes());
  const std::span block(tools().in.get(), std::min<std::uint64_t>(left_, k_member_block));
  TRY_ASSIGN(const std::size_t count, source_.read_at(next_, block));
  if (count < block.size()) return damaged("the file has become shorter");
  next_ += count;
  left_ -= count;
  return Bytes(block);
}

Result<std::size_t> ZipMember::inflate(std::span<std::byte> out) {
  Inflater& inflater = tools().inflater;
  inflater.set_room(out);
  while (inflater.room_left() > 0 && !inflater.has_ended()) {
    if (inflater.input_left() == 0) {
      TRY_ASSIGN(const Bytes in, next_packed());
      inflater.give(in);
    }
    const bool had_input = inflater.input_left() > 0;
    const std::size_t room = inflater.room_left();
    const Inflater::State state = inflater.run();
    if (state != Inflater::State::open && state != Inflater::State::ended)
      return damaged("invalid compressed data");
    const bool is_stuck = !had_input && inflater.room_left() == room;
    if (is_stuck && !inflater.has_ended()) return wrong_packed_size();
  }
  if (inflater.has_ended() && inflater.input_left() + at_hand_.size() + left_ != 0)
    return wrong_packed_size();
  return out.size() - inflater.room_left();
}

Result<std::size_t> ZipMember::inflate64(std::span<std::byte> out) {
  std::size_t count = 0;
  while (count < out.size() && !has_ended_) {
    if (at_hand_.empty()) {
      TRY_ASSIGN(at_hand_, next_packed());
    }
    const auto step = tools().deflate64->decode(at_hand_, out.subspan(count));
    if (!step) return damaged("invalid compressed data");
    const bool is_stuck = at_hand_.empty() && step->produced == 0 && !step->frame_ended;
    if (is_stuck) return wrong_packed_size();
    at_hand_ = at_hand_.subspan(step->consumed);
    count += step->produced;
    has_ended_ = step->frame_ended;
  }
  if (has_ended_ && at_hand_.size() + left_ != 0) return wrong_packed_size();
  return count;
}

}  // namespace nodestage

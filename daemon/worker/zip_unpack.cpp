#include "daemon/worker/zip_unpack.hpp"

#include <isa-l/crc.h>
#include <isa-l/igzip_lib.h>

#include <algorithm>

namespace nodestage {
namespace {

using namespace std::string_view_literals;

constexpr std::size_t k_local_bytes = 30;
constexpr std::size_t k_block = std::size_t{1} << 20;
constexpr std::uint16_t k_stored = 0;

std::string_view text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::uint32_t crc_of(Bytes data, std::uint32_t before = 0) {
  return ::crc32_gzip_refl(before, reinterpret_cast<const unsigned char*>(data.data()),
                           data.size());
}

// What a thread needs again and again, and what is not worth making for each file.
struct Tools {
  inflate_state inflate;
  std::unique_ptr<std::byte[]> in{new std::byte[k_block]};
  std::unique_ptr<std::byte[]> out{new std::byte[k_block]};
};

Tools& tools() {
  thread_local const auto tools = std::make_unique<Tools>();
  return *tools;
}

// A number that the local header may leave open: for a data descriptor, or for the zip64 field.
bool agrees(std::uint64_t local, std::uint64_t told) { return local == 0 || local == told; }

// On what the local header and the directory disagree; "" for nothing. `local` has the whole name.
std::string disagreement(std::string_view local, std::string_view extra, const ZipRecord& record) {
  if (local.substr(k_local_bytes, record.raw_name.size()) != record.raw_name) return "name";
  if (little<std::uint16_t>(local, 8) != record.method) return "compression method";
  const unsigned flags = little<std::uint16_t>(local, 6) ^ record.flags;
  if ((flags & ZipRecord::encrypted) != 0) return "encryption";
  if (!agrees(little<std::uint32_t>(local, 14), record.crc)) return "checksum";
  std::uint64_t packed = little<std::uint32_t>(local, 18);
  std::uint64_t size = little<std::uint32_t>(local, 22);
  if (const auto wide = find_extra(extra, 1)) widen(*wide, {&size, &packed});
  if (!agrees(packed, record.packed)) return "compressed size";
  return agrees(size, record.size) ? "" : "size";
}

// One member on its way to `put`. Faults are complete.
class Unpacking {
 public:
  Unpacking(const Source& source, const ZipRecord& record, const ZipUnpack::Put& put)
      : source_(source), record_(record), put_(put) {}

  // `start`: from the local header on; all of the member unless it is large, whose other data are
  // read from the source.
  Status run(Bytes start, std::uint64_t room);

 private:
  [[nodiscard]] Result<std::size_t> header_size(std::string_view local) const;
  Status inflate_whole();
  Status inflate();
  Status copy();
  Result<Bytes> next_packed();
  Status give(Bytes data);
  [[nodiscard]] Status finish() const;
  [[nodiscard]] Error damaged(const std::string& cause) const {
    return damaged_zip(source_, cause);
  }
  [[nodiscard]] Error wrong_size() const { return damaged("the data do not have the size told"); }
  [[nodiscard]] Error wrong_packed_size() const {
    return damaged("the compressed data do not have the size told");
  }

  const Source& source_;
  const ZipRecord& record_;
  const ZipUnpack::Put& put_;
  Bytes at_hand_;             // packed data, before those at next_
  std::uint64_t next_ = 0;    // in the source
  std::uint64_t left_ = 0;    // packed data in the source from next_ on
  std::uint64_t given_ = 0;   // bytes put
  std::uint32_t crc_ = 0;     // of them
};

Status Unpacking::run(Bytes start, std::uint64_t room) {
  TRY_ASSIGN(const std::size_t header, header_size(text_of(start)));
  if (room - header < record_.packed) {
    return damaged("the entry's data overlap what follows them");
  }
  const Bytes data = start.subspan(header);
  at_hand_ = data.first(std::min<std::uint64_t>(data.size(), record_.packed));
  next_ = record_.offset + header + at_hand_.size();
  left_ = record_.packed - at_hand_.size();
  if (record_.method == k_stored) return copy();
  return left_ == 0 && record_.size <= k_block ? inflate_whole() : inflate();
}

Result<std::size_t> Unpacking::header_size(std::string_view local) const {
  if (local.size() < k_local_bytes || !local.starts_with("PK\3\4"sv)) {
    return damaged("no entry begins where the directory says");
  }
  const std::size_t name_size = little<std::uint16_t>(local, 26);
  const std::size_t size = k_local_bytes + name_size + little<std::uint16_t>(local, 28);
  if (local.size() < size) return damaged("the entry's header overlaps what follows it");
  std::string what = "name";
  if (name_size == record_.raw_name.size()) {
    what = disagreement(local, local.substr(0, size).substr(k_local_bytes + name_size), record_);
  }
  if (what.empty()) return size;
  return damaged("the entry's own header and the archive's directory disagree on its " + what);
}

Result<Bytes> Unpacking::next_packed() {
  if (!at_hand_.empty() || left_ == 0) return std::exchange(at_hand_, Bytes());
  const std::span block(tools().in.get(), std::min<std::uint64_t>(left_, k_block));
  TRY_ASSIGN(const std::size_t count, source_.read_at(next_, block));
  if (count < block.size()) return damaged("the file has become shorter");
  next_ += count;
  left_ -= count;
  return Bytes(block);
}

Status Unpacking::give(Bytes data) {
  if (data.size() > record_.size - given_) return wrong_size();
  if (data.empty()) return {};
  crc_ = crc_of(data, crc_);
  return put_(std::exchange(given_, given_ + data.size()), data);
}

Status Unpacking::finish() const {
  if (given_ != record_.size) return wrong_size();
  return crc_ == record_.crc ? Status() : Status(damaged("wrong checksum (CRC-32)"));
}

Status Unpacking::copy() {
  if (record_.size != record_.packed) return wrong_size();
  if (left_ == 0) {
    if (crc_of(at_hand_) != record_.crc) return damaged("wrong checksum (CRC-32)");
  }
  for (;;) {
    TRY_ASSIGN(const Bytes data, next_packed());
    if (data.empty()) return finish();
    TRY(give(data));
  }
}

void feed(inflate_state& state, Bytes in) {
  // The library does not write there.
  state.next_in = const_cast<std::uint8_t*>(reinterpret_cast<const std::uint8_t*>(in.data()));
  state.avail_in = static_cast<std::uint32_t>(in.size());
}

void give_room(inflate_state& state, std::span<std::byte> out) {
  state.next_out = reinterpret_cast<std::uint8_t*>(out.data());
  state.avail_out = static_cast<std::uint32_t>(out.size());
}

Status Unpacking::inflate_whole() {
  inflate_state& state = tools().inflate;
  const std::span out(tools().out.get(), record_.size);
  isal_inflate_init(&state);
  feed(state, at_hand_);
  give_room(state, out);
  const int status = isal_inflate_stateless(&state);
  if (status == ISAL_OUT_OVERFLOW) return wrong_size();
  if (status == ISAL_END_INPUT) return wrong_packed_size();
  if (status != ISAL_DECOMP_OK) return damaged("invalid compressed data");
  if (state.avail_in != 0) return wrong_packed_size();
  if (state.avail_out != 0) return wrong_size();
  crc_ = crc_of(out);
  if (crc_ != record_.crc) return damaged("wrong checksum (CRC-32)");
  return out.empty() ? Status() : put_(0, out);
}

Status Unpacking::inflate() {
  inflate_state& state = tools().inflate;
  const std::span out(tools().out.get(), k_block);
  isal_inflate_init(&state);
  state.avail_in = 0;
  while (state.block_state != ISAL_BLOCK_FINISH) {
    if (state.avail_in == 0) {
      TRY_ASSIGN(const Bytes in, next_packed());
      feed(state, in);
    }
    const bool had_input = state.avail_in != 0;
    give_room(state, out);
    if (::isal_inflate(&state) != ISAL_DECOMP_OK) return damaged("invalid compressed data");
    const std::size_t made = out.size() - state.avail_out;
    if (made == 0 && !had_input && state.block_state != ISAL_BLOCK_FINISH) {
      return wrong_packed_size();
    }
    TRY(give(out.first(made)));
  }
  const auto in_state = static_cast<std::uint32_t>(state.read_in_length / 8);
  if (state.avail_in + in_state + left_ + at_hand_.size() != 0) return wrong_packed_size();
  return finish();
}

}  // namespace

Status ZipUnpack::unpack(std::size_t member, const Put& put) {
  const ZipRecord record = index_.record(member);
  const std::uint64_t room = index_.end(member) - record.offset;
  Unpacking unpacking(source_, record, put);
  TRY_ASSIGN(const Slice slice, reads_.member(member));
  if (!slice.empty()) return unpacking.run(slice.bytes(), room);
  const std::span block(tools().in.get(), std::min<std::uint64_t>(room, k_block));
  TRY_ASSIGN(const std::size_t count, source_.read_at(record.offset, block));
  return unpacking.run(block.first(count), room);
}

}  // namespace nodestage

// The codec of gzip members (RFC 1952): an Inflater decodes; headers are parsed here.
#pragma once

#include <algorithm>

#include "common/result.hpp"
#include "daemon/worker/decode/codec.hpp"
#include "daemon/worker/decode/ordered_parts.hpp"
#include "daemon/worker/gzip/inflater.hpp"

namespace nodestage {

// A member's header, in pieces of any size. It tracks which fields are present, in their order, and
// keeps nothing of them.
class GzipHeader {
 public:
  // The number of bytes of `in` that belong to the header. Fewer than all: the header is complete.
  Result<std::size_t> feed(Bytes in) {
    std::size_t used = 0;
    while (used < in.size() && field_ != Field::none) TRY(take(in[used++]));
    return used;
  }
  [[nodiscard]] bool is_complete() const { return field_ == Field::none; }
  void complete() { field_ = Field::none; }

 private:
  enum class Field { fixed, extra_size, extra, name, comment, header_crc, none };

  Status take(std::byte byte) {
    const auto value = std::to_integer<unsigned>(byte);
    if (field_ != Field::header_crc) crc_ = crc32_of(Bytes(&byte, 1), crc_);
    number_ |= value << (8 * std::min<std::size_t>(at_, 3));
    ++at_;
    switch (field_) {
      case Field::fixed:
        return take_fixed(value);
      case Field::extra_size:
        if (at_ == 2) extra_left_ = number_, leave(Field::extra);
        break;
      case Field::extra:
        if (at_ == extra_left_) leave(Field::name);
        break;
      case Field::name:
        if (value == 0) leave(Field::comment);
        break;
      case Field::comment:
        if (value == 0) leave(Field::header_crc);
        break;
      case Field::header_crc:
        if (at_ == 2 && number_ != (crc_ & 0xffffU)) return Error{0, "gzip header checksum"};
        if (at_ == 2) field_ = Field::none;
        break;
      case Field::none:
        break;
    }
    return {};
  }

  Status take_fixed(unsigned value) {
    if (at_ == k_deflate_at + 1 && value != 8) return Error{0, "gzip: unknown method"};
    if (at_ == k_flags_at + 1) flags_ = value;
    if ((flags_ & k_reserved) != 0) return Error{0, "gzip: unknown flags in the header"};
    if (at_ == k_fixed_bytes) leave(Field::extra_size);
    return {};
  }

  // Moves to `next`, or to the first field after it that is present.
  void leave(Field next) {
    at_ = 0;
    number_ = 0;
    field_ = next;
    if (field_ == Field::extra_size && (flags_ & k_has_extra) == 0) field_ = Field::name;
    if (field_ == Field::extra && extra_left_ == 0) field_ = Field::name;
    if (field_ == Field::name && (flags_ & k_has_name) == 0) field_ = Field::comment;
    if (field_ == Field::comment && (flags_ & k_has_comment) == 0) field_ = Field::header_crc;
    if (field_ == Field::header_crc && (flags_ & k_has_header_crc) == 0) field_ = Field::none;
  }

  static constexpr unsigned k_has_header_crc = 0x02;
  static constexpr unsigned k_has_extra = 0x04;
  static constexpr unsigned k_has_name = 0x08;
  static constexpr unsigned k_has_comment = 0x10;
  static constexpr unsigned k_reserved = 0xe0;
  static constexpr std::size_t k_flags_at = 3;
  static constexpr std::size_t k_deflate_at = 2;
  static constexpr std::size_t k_fixed_bytes = 10;
  Field field_ = Field::fixed;
  std::size_t at_ = 0;       // in the field
  unsigned number_ = 0;      // of the field's first bytes
  unsigned extra_left_ = 0;  // the extra field's size
  unsigned flags_ = 0;
  std::uint32_t crc_ = 0;
};

// A member may also be decoded from the start of any of its blocks.
class GzipCodec final : public Codec {
 public:
  Status begin_frame() override {
    header_ = {};
    inflater_.begin(Inflater::Trailer::gzip);
    return {};
  }
  // Instead of begin_frame(); as Inflater::begin_between().
  Status begin_between(const Inflater::Between& from, std::uint32_t size, std::byte byte,
                       Bytes window) {
    header_.complete();
    return inflater_.begin_between(from, size, byte, window);
  }
  [[nodiscard]] std::optional<Inflater::Between> between() const {
    return header_.is_complete() ? inflater_.between() : std::nullopt;
  }
  Result<Step> decode(Bytes in, std::span<std::byte> out) override;

 private:
  GzipHeader header_;
  Inflater inflater_;
};

// Gzip members that contain their size, as bgzip writes them (BGZF, SAM specification 4.1: an extra
// field "BC" with the member's size less 1; 64 KiB of data at most), decoded by any thread.

// A member fits into a block, so it does not matter how many there are.
std::unique_ptr<WholeFrames> make_whole_members(std::size_t most_blocks);

}  // namespace nodestage

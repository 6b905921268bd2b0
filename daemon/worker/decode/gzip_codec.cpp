#include "daemon/worker/decode/gzip_codec.hpp"

#include <optional>

#include "daemon/worker/decode/codecs.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_most_at_once = std::size_t{1} << 30;

Error inflate_fault(Inflater::State state) {
  return {0, state == Inflater::State::wrong_checksum ? "gzip checksum" : "gzip data"};
}

constexpr std::size_t k_fixed_header = 12;  // including the size of the extra field
constexpr std::size_t k_trailer = 8;
constexpr std::size_t k_most_data = 64 * 1024;
constexpr std::size_t k_most_member = 64 * 1024;
constexpr std::size_t k_most_members = 256;  // in one part

struct Member {
  std::size_t header;
  std::size_t size;  // of all of it
  std::size_t data;  // decoded
};

// The member's size according to field "BC", if the extra field has one.
std::optional<std::size_t> stated_size(const CompressedInput& input, std::size_t at,
                                       std::size_t extra) {
  for (const std::size_t end = at + extra; at + 4 <= end;) {
    const auto head = input.bytes_at<4>(at);
    const std::size_t size = little_endian<std::uint16_t>(head, 2);
    if (head[0] == std::byte{'B'} && head[1] == std::byte{'C'} && size == 2 && at + 6 <= end)
      return little_endian<std::uint16_t>(input.bytes_at<2>(at + 4)) + 1U;
    at += 4 + size;
  }
  return std::nullopt;
}

std::optional<Member> header_at(CompressedInput& input, std::size_t at) {
  constexpr std::array k_magic = {std::byte{0x1f}, std::byte{0x8b}, std::byte{8}, std::byte{4}};
  auto held = input.ensure(at + k_fixed_header);
  if (!held || *held < at + k_fixed_header || input.bytes_at<4>(at) != k_magic) return std::nullopt;
  const std::size_t extra =
      little_endian<std::uint16_t>(input.bytes_at<2>(at + k_fixed_header - 2));
  held = input.ensure(at + k_fixed_header + extra);
  if (!held || *held < at + k_fixed_header + extra) return std::nullopt;
  const auto size = stated_size(input, at + k_fixed_header, extra);
  if (!size || *size < k_fixed_header + extra + k_trailer) return std::nullopt;
  return Member{k_fixed_header + extra, *size, 0};
}

// Also empty if the file ends too early: the FrameReader reports what is wrong then.
std::optional<Member> member_at(CompressedInput& input, std::size_t at) {
  auto member = header_at(input, at);
  if (!member) return std::nullopt;
  const auto held = input.ensure(at + member->size);
  if (!held || *held < at + member->size) return std::nullopt;
  member->data = little_endian(input.bytes_at<4>(at + member->size - 4));
  if (member->data > k_most_data) return std::nullopt;
  return member;
}

class MembersPart final : public Part {
 public:
  MembersPart(std::vector<Member> members, std::uint64_t offset, std::vector<Slice> input,
              const DecodeFaults& faults)
      : members_(std::move(members)), offset_(offset), input_(std::move(input)), faults_(faults) {}

  void work() override {
    CompressedInput input(offset_, input_);
    Inflater inflater;
    for (const Member& member : members_) {
      fault = decode(inflater, member, input);
      if (!fault) break;
    }
    input_.clear();
  }

 private:
  Status decode(Inflater& inflater, const Member& member, CompressedInput& input) {
    TRY(input.ensure(member.size));
    Bytes bytes = input.front();
    std::array<std::byte, k_most_member> straddling;
    if (bytes.size() < member.size) {
      input.copy(0, std::span(straddling).first(member.size));
      bytes = straddling;
    }
    bytes = bytes.subspan(member.header, member.size - member.header);
    Block& block = blocks.front();
    inflater.begin(Inflater::Trailer::gzip);
    inflater.give(bytes);
    inflater.set_room(block.room().subspan(block.size, member.data));
    const Inflater::State state = inflater.run_whole();
    const std::size_t left = inflater.input_left();
    if (state != Inflater::State::ended || left != 0 || inflater.room_left() != 0) {
      const Error error = inflate_fault(state);
      return faults_.damaged_at(input.offset() + member.size - left, error.text());
    }
    block.size += member.data;
    input.skip(member.size);
    return {};
  }

  const std::vector<Member> members_;
  const std::uint64_t offset_;
  std::vector<Slice> input_;
  const DecodeFaults& faults_;
};

class WholeMembers final : public WholeFrames {
 public:
  bool may_begin(CompressedInput& input) override { return header_at(input, 0).has_value(); }

  std::unique_ptr<Part> take(DecodeStore& store) override {
    const std::size_t room = store.block_bytes;
    std::vector<Member> members;
    std::size_t size = 0;
    std::size_t data = 0;
    while (members.size() < k_most_members) {
      const auto member = member_at(store.input, size);
      if (!member || data + member->data > room) break;
      members.push_back(*member);
      size += member->size;
      data += member->data;
    }
    if (members.empty()) return nullptr;
    const std::uint64_t offset = store.input.offset();
    auto part = std::make_unique<MembersPart>(std::move(members), offset, store.input.take(size),
                                              store.faults);
    part->position = offset + size;
    store.add_block(*part);
    return part;
  }
};

}  // namespace

Result<Codec::Step> GzipCodec::decode(Bytes in, std::span<std::byte> out) {
  const auto used = header_.feed(in);
  if (!used) return failed(used.error(), 0, 0);
  if (!header_.is_complete()) return Step{*used, 0, false};
  in = in.subspan(*used);
  in = in.first(std::min(in.size(), k_most_at_once));
  out = out.first(std::min(out.size(), k_most_at_once));
  inflater_.give(in);
  inflater_.set_room(out);
  const Inflater::State state = inflater_.run();
  const std::size_t consumed = *used + in.size() - inflater_.input_left();
  const std::size_t produced = out.size() - inflater_.room_left();
  if (state != Inflater::State::open && state != Inflater::State::ended)
    return failed(inflate_fault(state), consumed, produced);
  return Step{consumed, produced, state == Inflater::State::ended};
}

std::unique_ptr<Codec> make_gzip_codec(CodecLimits) { return std::make_unique<GzipCodec>(); }

std::unique_ptr<WholeFrames> make_whole_members(std::size_t) {
  return std::make_unique<WholeMembers>();
}

}  // namespace nodestage

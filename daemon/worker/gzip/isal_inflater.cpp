// By ISA-L.
#include <dlfcn.h>
#include <isa-l.h>

#include <cstdlib>

#include "common/text/human.hpp"
#include "daemon/worker/gzip/inflater.hpp"

namespace nodestage {

struct Inflater::Library {
  inflate_state state;
  bool holds_input = false;  // whole bytes in read_in that are not the data's
};

Inflater::Inflater() : library_(std::make_unique<Library>()) { begin(Trailer::none); }
Inflater::~Inflater() = default;

void Inflater::begin(Trailer trailer) {
  inflate_state& state = library_->state;
  ::isal_inflate_init(&state);
  state.crc_flag = trailer == Trailer::gzip ? ISAL_GZIP_NO_HDR_VER : ISAL_DEFLATE;
  state.avail_in = 0;
  library_->holds_input = false;
}

bool Inflater::can_begin_between() { return true; }

Status Inflater::begin_between(const Between& from, std::uint32_t size, std::byte byte,
                               Bytes window) {
  begin(Trailer::gzip);
  inflate_state& state = library_->state;
  state.read_in = std::to_integer<std::uint64_t>(byte) >> (8 - from.bits_left);
  state.read_in_length = static_cast<std::int32_t>(from.bits_left);
  state.crc = from.crc;
  state.total_out = size;
  // As above, it does not write to it.
  const int status = ::isal_inflate_set_dict(
      &state, reinterpret_cast<std::uint8_t*>(const_cast<std::byte*>(window.data())),
      static_cast<std::uint32_t>(window.size()));
  if (status != ISAL_DECOMP_OK) return Error{0, "ISA-L refuses its window"};
  return {};
}

// A header of which there is only a part is kept whole, and read again when there is more.
std::optional<Inflater::Between> Inflater::between() const {
  const inflate_state& state = library_->state;
  const bool is_between =
      state.block_state == ISAL_BLOCK_NEW_HDR || state.block_state == ISAL_BLOCK_HDR;
  if (!is_between || state.avail_in > 0 || state.tmp_out_valid != state.tmp_out_processed ||
      state.copy_overflow_length > 0 || state.write_overflow_len > 0)
    return std::nullopt;
  const auto bits = static_cast<unsigned>(state.read_in_length + 8 * state.tmp_in_size);
  return Between{bits, state.crc};
}

void Inflater::give(Bytes in) {
  // ISA-L takes a pointer to non-const input, to which it does not write.
  library_->state.next_in = reinterpret_cast<std::uint8_t*>(const_cast<std::byte*>(in.data()));
  library_->state.avail_in = static_cast<std::uint32_t>(in.size());
}

void Inflater::set_room(std::span<std::byte> out) {
  library_->state.next_out = reinterpret_cast<std::uint8_t*>(out.data());
  library_->state.avail_out = static_cast<std::uint32_t>(out.size());
}

namespace {

Inflater::State state_of(int status) {
  switch (status) {
    case ISAL_OUT_OVERFLOW:
      return Inflater::State::no_room;
    case ISAL_END_INPUT:
      return Inflater::State::no_input;
    case ISAL_INCORRECT_CHECKSUM:
      return Inflater::State::wrong_checksum;
    default:
      return Inflater::State::damaged;
  }
}

}  // namespace

Inflater::State Inflater::run() {
  inflate_state& state = library_->state;
  const int status = ::isal_inflate(&state);
  if (status != ISAL_DECOMP_OK) return state_of(status);
  library_->holds_input = has_ended() && state.crc_flag == ISAL_DEFLATE;
  return has_ended() ? State::ended : State::open;
}

Inflater::State Inflater::run_whole() {
  const int status = ::isal_inflate_stateless(&library_->state);
  return status == ISAL_DECOMP_OK ? State::ended : state_of(status);
}

bool Inflater::has_ended() const { return library_->state.block_state == ISAL_BLOCK_FINISH; }

std::size_t Inflater::input_left() const {
  const inflate_state& state = library_->state;
  const auto held = static_cast<std::size_t>(state.read_in_length / 8);
  return state.avail_in + (library_->holds_input ? held : 0);
}

std::size_t Inflater::room_left() const { return library_->state.avail_out; }

std::uint32_t crc32_of(Bytes bytes, std::uint32_t before) {
  return ::crc32_gzip_refl(before, reinterpret_cast<const unsigned char*>(bytes.data()),
                           bytes.size());
}

// Releases before 2.31 cannot be asked: the file's name has the version.
std::string isal_text() {
  std::string built = "built with " + std::to_string(ISAL_MAJOR_VERSION) + "." +
                      std::to_string(ISAL_MINOR_VERSION) + "." + std::to_string(ISAL_PATCH_VERSION);
  Dl_info found{};
  if (::dladdr(reinterpret_cast<const void*>(&isal_inflate_init), &found) == 0) return built;
  const std::unique_ptr<char, decltype(&std::free)> file(::realpath(found.dli_fname, nullptr),
                                                         &std::free);
  return file ? last_part(file.get()) + ", " + built : built;
}

}  // namespace nodestage

// By zlib, in a build without ISA-L.
#include <zlib.h>

#include <array>
#include <new>
#include <string_view>

#include "daemon/worker/gzip/inflater.hpp"

namespace nodestage {
namespace {

constexpr int k_raw = -MAX_WBITS;
constexpr int k_gzip = 16 + MAX_WBITS;

}  // namespace

struct Inflater::Library {
  Library() {
    // As `new` does.
    if (::inflateInit2(&stream, k_raw) != Z_OK) throw std::bad_alloc();
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library() { ::inflateEnd(&stream); }

  State inflate(int flush) {
    const int status = ::inflate(&stream, flush);
    has_ended = status == Z_STREAM_END;
    if (has_ended) return State::ended;
    if (status == Z_OK || status == Z_BUF_ERROR) return State::open;
    if (status == Z_MEM_ERROR) throw std::bad_alloc();
    // "incorrect data check", "incorrect length check": nothing else distinguishes these.
    const std::string_view cause = stream.msg == nullptr ? "" : stream.msg;
    return cause.ends_with("check") ? State::wrong_checksum : State::damaged;
  }

  z_stream stream{};
  bool has_ended = false;
};

Inflater::Inflater() : library_(std::make_unique<Library>()) {}
Inflater::~Inflater() = default;

void Inflater::begin(Trailer trailer) {
  library_->has_ended = false;
  ::inflateReset2(&library_->stream, trailer == Trailer::gzip ? k_gzip : k_raw);
  if (trailer == Trailer::gzip) {
    // zlib verifies a trailer only after a header, of which the caller's was parsed elsewhere.
    static constexpr std::array<std::uint8_t, 10> k_header{0x1f, 0x8b, Z_DEFLATED};
    give(std::as_bytes(std::span(k_header)));
    set_room({});
    static_cast<void>(library_->inflate(Z_SYNC_FLUSH));
  }
  give({});
}

// zlib does not take the checksum of what precedes.
bool Inflater::can_begin_between() { return false; }
Status Inflater::begin_between(const Between&, std::uint32_t, std::byte, Bytes) {
  return Error{0, "zlib cannot begin between blocks"};
}
std::optional<Inflater::Between> Inflater::between() const { return std::nullopt; }

void Inflater::give(Bytes in) {
  // zlib takes a pointer to non-const input, to which it does not write.
  library_->stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(in.data()));
  library_->stream.avail_in = static_cast<uInt>(in.size());
}

void Inflater::set_room(std::span<std::byte> out) {
  static Bytef none;  // zlib wants an address
  library_->stream.next_out = out.empty() ? &none : reinterpret_cast<Bytef*>(out.data());
  library_->stream.avail_out = static_cast<uInt>(out.size());
}

Inflater::State Inflater::run() { return library_->inflate(Z_SYNC_FLUSH); }

Inflater::State Inflater::run_whole() {
  const State state = library_->inflate(Z_FINISH);
  if (state != State::open) return state;
  return input_left() > 0 ? State::no_room : State::no_input;
}

bool Inflater::has_ended() const { return library_->has_ended; }

std::size_t Inflater::input_left() const { return library_->stream.avail_in; }

std::size_t Inflater::room_left() const { return library_->stream.avail_out; }

std::uint32_t crc32_of(Bytes bytes, std::uint32_t before) {
  if (bytes.empty()) return before;  // zlib begins anew where there is no address
  const auto crc = ::crc32_z(before, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  return static_cast<std::uint32_t>(crc);
}

std::string isal_text() {
  return std::string("not in this build: zlib ") + ::zlibVersion() + " inflates gzip and zip";
}

}  // namespace nodestage

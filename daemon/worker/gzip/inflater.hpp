// Inflater: deflate data (RFC 1951), alone or with the trailer of a gzip member (RFC 1952), and the
// CRC-32 of both gzip and zip. ISA-L does the work, or zlib in a build without ISA-L.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "common/result.hpp"
#include "daemon/worker/basis/fault.hpp"

namespace nodestage {

class Inflater {
 public:
  enum class Trailer { none, gzip };  // gzip: CRC-32 and length follow the data and are verified
  enum class State {
    open,  // run(): it needs more input or room
    ended,
    no_room,   // run_whole(): the data are larger than the room
    no_input,  // run_whole(): the input ends too early
    damaged,
    wrong_checksum
  };

  Inflater();
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater();

  // Between two blocks of a gzip member's data.
  struct Between {
    unsigned bits_left;  // of what was given, not used yet: the first of them begins the next block
    std::uint32_t crc;   // of the member's data so far
  };

  // Call it before each piece of data.
  void begin(Trailer trailer);
  // The same for the rest of a gzip member's data, whose block begins with the last `bits_left`
  // bits of `byte`, and goes on with what is given next. `size` bytes precede, modulo 2^32, and
  // `window` has the last 32 KiB of them. Only if can_begin_between(). A fault: the library
  // refuses.
  Status begin_between(const Between& from, std::uint32_t size, std::byte byte, Bytes window);
  static bool can_begin_between();
  // Both are borrowed until they are used up, and have less than 4 GiB.
  void give(Bytes in);
  void set_room(std::span<std::byte> out);

  // Inflates until the input or the room is used up, or the data end.
  [[nodiscard]] State run();
  // The same if all of the input and all of the room are there, which is faster. Never open.
  [[nodiscard]] State run_whole();

  [[nodiscard]] bool has_ended() const;
  // Nothing: it is not between two blocks, or has not used or returned everything.
  [[nodiscard]] std::optional<Between> between() const;
  // Bytes that were given and do not belong to the data, or were not looked at yet.
  [[nodiscard]] std::size_t input_left() const;
  [[nodiscard]] std::size_t room_left() const;

 private:
  struct Library;
  std::unique_ptr<Library> library_;
};

// `before`: of the bytes that precede these.
std::uint32_t crc32_of(Bytes bytes, std::uint32_t before = 0);

// For people: the version of ISA-L, or that there is none and what inflates instead.
std::string isal_text();

}  // namespace nodestage

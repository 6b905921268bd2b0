// Faults as a job's user reads them: what happened, and what to do about it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <string_view>

#include "common/result.hpp"

namespace nodestage {

// Bytes that are only read, and the numbers in them.
using Bytes = std::span<const std::byte>;

// Takes as many bytes from `at` on as the type has, the lowest one first; they must exist.
template <typename Number = std::uint32_t>
Number little_endian(Bytes bytes, std::size_t at = 0) {
  std::uint64_t number = 0;
  for (std::size_t i = sizeof(Number); i-- > 0;)
    number = number << 8 | std::to_integer<std::uint64_t>(bytes[at + i]);
  return static_cast<Number>(number);
}

template <typename Number = std::uint32_t>
Number little_endian(std::string_view text, std::size_t at = 0) {
  return little_endian<Number>(std::as_bytes(std::span(text)), at);
}

// Returns how many zero bytes come first.
inline std::size_t zeros_before_data(Bytes bytes) {
  const auto other =
      std::find_if(bytes.begin(), bytes.end(), [](auto b) { return b != std::byte{0}; });
  return static_cast<std::size_t>(other - bytes.begin());
}

template <typename Number>
void put_little_endian(std::string& text, Number number) {
  auto rest = static_cast<std::uint64_t>(number);
  for (std::size_t i = 0; i < sizeof number; ++i, rest >>= 8)
    text += static_cast<char>(static_cast<unsigned char>(rest & 0xff));
}

// An Error with an advice.
Error fault(int code, std::string cause, std::string_view advice);

// The advice for EMFILE.
inline constexpr const char* k_raise_open_files =
    "Too few files may be open at once: raise the limit, with `ulimit -n` before nodestage run, or "
    "with LimitNOFILE of nodestaged's service";

// For an archive or an entry with a password; `whose`: "" or "PATH: ".
Error password_fault(std::string whose = {});

// Puts text before, or at the end of, the cause; the advice stays as it is.
Error with_prefix(Error error, std::string_view prefix);
Error with_suffix(Error error, std::string_view suffix);

// Adds advice to an error that has none yet.
Error with_advice(Error error, std::string_view advice);

// Adds a note for the user to others, unless it is "".
void add_note(std::string& notes, const std::string& note);

// For an exception of a library, at a thread's boundary.
Error thrown(const std::exception& error);

// A path or an entry's name as it is shown: printable and not too long.
std::string shown(std::string_view name);

// The fault of the other threads after one has failed: never shown.
Error stopped();
bool is_stopped(const Error& error);

// For tasks that nobody waits for.

// Lowers this process's priority (nice 19) and its I/O priority (idle), as far as the kernel
// allows. The sandbox allows it, too.
void lower_priority();

// The worker's log: lines on fd 2, a pipe that the daemon drains. The daemon puts job and uid
// before each line.

// One write(2), so lines of several threads never mix. Control characters are escaped.
void log_line(std::string_view text);
// For what needs an administrator: the line starts with k_error_mark.
void log_error(std::string_view text);

}  // namespace nodestage

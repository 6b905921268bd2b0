// Formats numbers and names for people.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nodestage {

inline constexpr std::uint64_t k_mebibyte = 1ULL << 20;

// Returns "0 B", "1023 B", "1.5 KiB", "12.0 GiB".
std::string human_bytes(std::uint64_t bytes, int decimals = 1);
// Returns both with enough decimals to show that they differ: "1.002 GiB", "1.000 GiB".
std::pair<std::string, std::string> human_bytes_apart(std::uint64_t one, std::uint64_t other);
std::string human_count(std::uint64_t count);  // "1,234,567"
// Returns "1 file", or "1,234 files".
std::string counted(std::uint64_t count, std::string_view one, std::string_view several);
std::string human_duration(
    std::uint64_t milliseconds);  // "0.4 s", "12.3 s", "3 min 05 s", "2 h 03 min"
// Returns "about 12 s", or "less than a second".
std::string about_seconds(double seconds);
std::string human_date(std::uint64_t epoch);  // "2026-11-21 15:30", the node's local time

// Makes text safe for a terminal or a log: control characters and invalid UTF-8 become \xNN;
// newlines can be kept, or become "; ".
enum class Newlines { escape, keep, join };
std::string printable(std::string_view text, Newlines newlines = Newlines::escape);

// Quotes printable text, if needed, so that a shell reads it as one word.
std::string shell_word(const std::string& text);

// Returns "a,b".
std::string joined(const std::vector<std::string>& names, std::string_view separator);
// Returns "'a', 'b'", made printable.
std::string quoted_names(const std::vector<std::string>& names);

// Returns the last part of a path, without trailing slashes.
std::string last_part(const std::string& path);

// Returns at most `width` bytes; replaces the middle of a longer text by "...". Cuts no character
// of a text in UTF-8.
std::string shortened(std::string_view text, std::size_t width);

// Returns "a, b and 3 more": the first `shown` names, printable, each of at most `width` bytes.
std::string listed(const std::vector<std::string>& names, std::size_t shown, std::size_t width);

// Makes text of others printable and bounded in one step.

// Returns printable() text of at most `bytes` bytes, escapes included; "..." replaces the middle of
// a longer one, between two characters. `bytes` is at least 3.
std::string printable_within(std::string_view text, std::size_t bytes,
                             Newlines newlines = Newlines::escape);

// Returns "n1", "n1 and n2", "n1, n2, n3 and 4 more", of printable names.
std::string nodes_text(const std::vector<std::string>& nodes);
// Returns "node n1: CAUSE", or "nodes n1 and n2: CAUSE": a failure as the job's nodes report it.
std::string failure_on(const std::vector<std::string>& nodes, const std::string& cause);

}  // namespace nodestage

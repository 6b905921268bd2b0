#include "common/text/human.hpp"

#include <cmath>
#include <cstdio>
#include <ctime>

namespace nodestage {
namespace {

// Whether text starts with a character that changes the order or the lines of the text around it:
// those with the property Bidi_Control (U+061C, U+200E..F, U+202A..E, U+2066..9), which can make
// one name look like another, and the separators U+2028 and U+2029.
bool rearranges(std::string_view text) {
  const auto third_within = [text](char first, char last) {
    return text.size() > 2 && text[2] >= first && text[2] <= last;
  };
  if (text.starts_with("\xe2\x80"))
    return third_within('\x8e', '\x8f') || third_within('\xa8', '\xae');
  return text.starts_with("\xd8\x9c") ||
         (text.starts_with("\xe2\x81") && third_within('\xa6', '\xa9'));
}

// Returns the length of the UTF-8 sequence at the start of text, or 0 if it is not valid (Table 3-7
// of the Unicode standard). C1 controls (U+0080..9F) count as invalid, since terminals obey them.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [text](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const auto continues = [&byte](std::size_t i) { return (byte(i) & 0xc0U) == 0x80U; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) {
    return continues(1) && !(first == 0xc2 && byte(1) < 0xa0) ? 2 : 0;
  }
  if (first >= 0xe0 && first <= 0xef) {
    const bool overlong = first == 0xe0 && byte(1) < 0xa0;
    const bool surrogate = first == 0xed && byte(1) > 0x9f;
    return continues(1) && continues(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    const bool overlong = first == 0xf0 && byte(1) < 0x90;
    const bool beyond = first == 0xf4 && byte(1) > 0x8f;
    return continues(1) && continues(2) && continues(3) && !overlong && !beyond ? 4 : 0;
  }
  return 0;
}

std::string formatted(const char* format, auto... values) {
  char text[64];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

}  // namespace

std::string human_bytes(std::uint64_t bytes, int decimals) {
  if (bytes < 1024) return std::to_string(bytes) + " B";
  static constexpr const char* k_units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (value >= 999.95 && unit + 1 < std::size(k_units)) {
    value /= 1024;
    ++unit;
  }
  return formatted("%.*f %s", decimals, value, k_units[unit]);
}

std::pair<std::string, std::string> human_bytes_apart(std::uint64_t one, std::uint64_t other) {
  constexpr int k_most_decimals = 9;
  int decimals = 1;
  while (one != other && decimals < k_most_decimals &&
         human_bytes(one, decimals) == human_bytes(other, decimals))
    ++decimals;
  return {human_bytes(one, decimals), human_bytes(other, decimals)};
}

std::string human_count(std::uint64_t count) {
  std::string text = std::to_string(count);
  for (std::size_t i = text.size(); i > 3; i -= 3) text.insert(i - 3, ",");
  return text;
}

std::string counted(std::uint64_t count, std::string_view one, std::string_view several) {
  return human_count(count) + " " + std::string(count == 1 ? one : several);
}

std::string human_duration(std::uint64_t milliseconds) {
  if (milliseconds < 59'950) return formatted("%.1f s", static_cast<double>(milliseconds) / 1000);
  const auto seconds = static_cast<unsigned long>((milliseconds + 500) / 1000);
  if (seconds < 3600) return formatted("%lu min %02lu s", seconds / 60, seconds % 60);
  return formatted("%lu h %02lu min", seconds / 3600, seconds / 60 % 60);
}

std::string printable(std::string_view text, Newlines newlines) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const auto c = static_cast<unsigned char>(text.front());
    const std::size_t length = utf8_length(text);
    const bool kept_newline = c == '\n' && newlines == Newlines::keep;
    if (c == '\n' && newlines == Newlines::join) {
      result += "; ";
      text.remove_prefix(1);
    } else if (length == 0 || (c < 0x20 && !kept_newline) || c == 0x7f || rearranges(text)) {
      result += formatted("\\x%02x", static_cast<unsigned>(c));
      text.remove_prefix(1);
    } else {
      result += text.substr(0, length);
      text.remove_prefix(length);
    }
  }
  return result;
}

std::string about_seconds(double seconds) {
  if (seconds < 1) return "less than a second";
  if (seconds < 60) return "about " + std::to_string(static_cast<int>(std::ceil(seconds))) + " s";
  return "about " + human_duration(static_cast<std::uint64_t>(std::llround(seconds * 1000)));
}

std::string human_date(std::uint64_t epoch) {
  const auto time = static_cast<std::time_t>(epoch);
  std::tm parts{};
  char text[32];
  ::localtime_r(&time, &parts);
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &parts)};
}

std::string shell_word(const std::string& text) {
  constexpr std::string_view k_plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+=:,@%";
  if (!text.empty() && text.find_first_not_of(k_plain) == std::string::npos) return text;
  std::string word = "'";
  for (const char c : text) {
    if (c == '\'')
      word += "'\\''";
    else
      word += c;
  }
  return word + "'";
}

std::string joined(const std::vector<std::string>& names, std::string_view separator) {
  std::string text;
  for (const std::string& name : names) {
    if (!text.empty()) text += separator;
    text += name;
  }
  return text;
}

std::string quoted_names(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names)
    text += (text.empty() ? "'" : ", '") + printable(name) + "'";
  return text;
}

std::string last_part(const std::string& path) {
  const std::size_t end = path.find_last_not_of('/');
  if (end == std::string::npos) return path;
  return path.substr(0, end + 1).substr(path.rfind('/', end) + 1);
}

std::string listed(const std::vector<std::string>& names, std::size_t shown, std::size_t width) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), shown); ++i)
    text += (i == 0 ? "" : ", ") + shortened(printable(names[i]), width);
  return names.size() <= shown ? text
                               : text + " and " + human_count(names.size() - shown) + " more";
}

std::string shortened(std::string_view text, std::size_t width) {
  if (text.size() <= width) return std::string(text);
  const auto is_inside = [text](std::size_t at) {  // of a character
    return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80;
  };
  const bool is_tiny = width <= 3;
  std::size_t head = is_tiny ? width : (width - 3) / 2;
  std::size_t tail = is_tiny ? text.size() : text.size() - (width - 3 - head);
  while (head > 0 && is_inside(head)) --head;
  while (is_inside(tail)) ++tail;
  return std::string(text.substr(0, head)) + (is_tiny ? "" : "...") +
         std::string(text.substr(tail));
}

std::string printable_within(std::string_view text, std::size_t bytes, Newlines newlines) {
  const std::string shown = printable(text, newlines);
  constexpr std::string_view k_gap = "...";
  return shown.size() > bytes && bytes == k_gap.size() ? std::string(k_gap)
                                                       : shortened(shown, bytes);
}

std::string nodes_text(const std::vector<std::string>& nodes) {
  constexpr std::size_t k_names = 3;
  const std::size_t count = nodes.size();
  const std::size_t shown = count <= k_names + 1 ? count : k_names;
  std::string text;
  for (std::size_t i = 0; i < shown; ++i) {
    const bool is_last = i + 1 == count;
    text += (i == 0 ? "" : is_last ? " and " : ", ") + nodes[i];
  }
  return shown == count ? text : text + " and " + human_count(count - shown) + " more";
}

std::string failure_on(const std::vector<std::string>& nodes, const std::string& cause) {
  return (nodes.size() == 1 ? "node " : "nodes ") + nodes_text(nodes) + ": " + cause;
}

}  // namespace nodestage

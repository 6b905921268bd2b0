#include "common/text/path_names.hpp"

#include <strings.h>

#include <algorithm>

#include "common/text/archive_names.hpp"
#include "common/text/glob_text.hpp"
#include "common/text/parsing.hpp"

namespace nodestage {

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

bool has_suffix(std::string_view path, std::string_view suffix) {
  return path.size() >= suffix.size() && ::strncasecmp(path.data() + path.size() - suffix.size(),
                                                       suffix.data(), suffix.size()) == 0;
}

std::string default_destination(std::string_view source) {
  while (source.ends_with('/')) source.remove_suffix(1);
  std::string_view name = source.substr(source.rfind('/') + 1);
  const std::string_view suffix = archive_suffix(name);
  if (suffix.size() < name.size()) name.remove_suffix(suffix.size());
  return std::string(name);
}

namespace {

// Takes the digits at the start, without the zeros before them.
std::string_view take_digits(std::string_view& text) {
  const std::size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
  std::string_view digits = text.substr(0, end);
  text.remove_prefix(end);
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size()));
  return digits;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

bool is_before_by_numbers(std::string_view name, std::string_view other) {
  std::string_view one = name;
  std::string_view two = other;
  while (!one.empty() && !two.empty()) {
    if (is_digit(one.front()) && is_digit(two.front())) {
      const std::string_view left = take_digits(one);
      const std::string_view right = take_digits(two);
      if (left.size() != right.size()) return left.size() < right.size();
      if (left != right) return left < right;
    } else if (one.front() != two.front()) {
      return static_cast<unsigned char>(one.front()) < static_cast<unsigned char>(two.front());
    } else {
      one.remove_prefix(1);
      two.remove_prefix(1);
    }
  }
  if (one.empty() != two.empty()) return one.empty();
  return name < other;  // they differ in zeros alone
}

std::string parent_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == 0 || slash == std::string::npos ? "/" : path.substr(0, slash);
}

std::string without_slashes(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

std::string variable_name(std::string_view text) {
  std::string name;
  for (const char c : text) {
    const bool lower = c >= 'a' && c <= 'z';
    const bool kept = (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    name += lower ? static_cast<char>(c - 'a' + 'A') : (kept ? c : '_');
  }
  if (!name.empty() && name[0] >= '0' && name[0] <= '9') name.insert(0, 1, '_');
  return name;
}

bool is_glob(std::string_view path) { return start_of_glob(path) != path.size(); }

std::size_t start_of_glob(std::string_view path) {
  for (std::size_t i = 0; i < path.size(); ++i) {
    const bool is_escaped_brace = path[i] == '\\' && path.substr(i + 1).starts_with('{');
    const bool is_wild = std::string_view("*?[").find(path[i]) != std::string_view::npos;
    if (is_wild || is_escaped_brace || end_of_braces(path, i) != std::string_view::npos) return i;
  }
  return path.size();
}

bool is_path_below(std::string_view path) {
  if (path.empty() || path.starts_with('/') || path.find('\0') != std::string_view::npos) {
    return false;
  }
  bool names_something = false;
  for (const std::string_view name : parts_of(path, '/')) {
    if (name == ".." || name.size() > 255) return false;
    if (!names_something && name.starts_with(".nodestage")) return false;
    names_something = names_something || (!name.empty() && name != ".");
  }
  return names_something;
}

bool is_below(std::string_view path, std::string_view directory) {
  while (directory.ends_with('/')) directory.remove_suffix(1);
  return path.starts_with(directory) &&
         (path.size() == directory.size() || path[directory.size()] == '/');
}

bool is_venv_path(std::string_view path) {
  return std::all_of(path.begin(), path.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 && byte != 0x7f &&
           std::string_view("\"'$\\`:").find(c) == std::string_view::npos;
  });
}

bool is_variable_name(std::string_view name) {
  const auto is_letter = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
  };
  return !name.empty() && is_letter(name[0]) && std::all_of(name.begin(), name.end(), [&](char c) {
    return is_letter(c) || (c >= '0' && c <= '9');
  });
}

}  // namespace nodestage

#include "common/text/archive_names.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "common/text/path_names.hpp"

namespace nodestage {
namespace {

using Use = ArchiveName::Use;

template <typename Visit>
constexpr void for_each_word(std::string_view words, Visit&& visit) {
  while (!words.empty()) {
    const std::size_t end = std::min(words.find(' '), words.size());
    visit(words.substr(0, end));
    words.remove_prefix(std::min(end + 1, words.size()));
  }
}

// Calls `visit` with each name that the tables of archive_names.hpp have.
template <typename Visit>
constexpr void for_each_name(Visit&& visit) {
  for (const CodingRow& row : k_codings) {
    for_each_word(row.written, [&](std::string_view suffix) {
      visit(ArchiveName{suffix, Container::tar, row.coding});
    });
    for_each_word(row.read, [&](std::string_view suffix) {
      visit(ArchiveName{suffix, Container::tar, row.coding, Use::extracted, false});
    });
  }
  for (const ContainerRow& row : k_containers) {
    for_each_word(row.written, [&](std::string_view suffix) {
      visit(ArchiveName{suffix, row.container});
    });
    for_each_word(row.read, [&](std::string_view suffix) {
      visit(ArchiveName{suffix, row.container, Coding::plain, Use::extracted, false});
    });
  }
  for (const RefusedNames& row : k_refused) {
    for_each_word(row.suffixes, [&](std::string_view suffix) {
      visit(ArchiveName{suffix, Container::none, Coding::plain, Use::refused, false, row.program});
    });
  }
  for_each_word(k_copied, [&](std::string_view suffix) {
    visit(ArchiveName{suffix, Container::zip, Coding::plain, Use::copied, false});
  });
}

constexpr std::size_t count_names() {
  std::size_t count = 0;
  for_each_name([&count](const ArchiveName&) { ++count; });
  return count;
}

constexpr auto k_archive_names = [] {
  std::array<ArchiveName, count_names()> names{};
  std::size_t count = 0;
  for_each_name([&](const ArchiveName& name) { names[count++] = name; });
  return names;
}();

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// "aa" to "cz", as split(1) names the first 78 parts, but for endings of other files.
bool is_split_ending(std::string_view text) {
  return text.size() == 2 && text[0] >= 'a' && text[0] <= 'c' && text[1] >= 'a' && text[1] <= 'z' &&
         text != "br" && text != "bz";
}

// What follows an archive's suffix in the name of one of its parts: ".001", ".aa", ".part1",
// "-part-aa".
bool is_part_ending(std::string_view text) {
  constexpr std::string_view k_joints = "._-";
  if (k_joints.find(text.front()) == std::string_view::npos) return false;
  text.remove_prefix(1);
  if (!text.starts_with("part")) {
    return is_split_ending(text) || (is_digits(text) && (text.size() == 2 || text.size() == 3));
  }
  text.remove_prefix(4);
  if (!text.empty() && k_joints.find(text.front()) != std::string_view::npos) text.remove_prefix(1);
  return (is_digits(text) && text.size() <= 5) || is_split_ending(text);
}

// Returns where the name may end and that of a part may begin.
std::vector<std::size_t> part_endings(std::string_view path) {
  constexpr std::size_t k_longest = 12;
  std::vector<std::size_t> endings;
  for (std::size_t at = path.size() - std::min(path.size(), k_longest); at < path.size(); ++at) {
    if (is_part_ending(path.substr(at))) endings.push_back(at);
  }
  return endings;
}

bool is_archive(const ArchiveName& name) { return name.use != Use::copied; }

}  // namespace

std::span<const ArchiveName> archive_names() { return k_archive_names; }

const ArchiveName* archive_name(std::string_view path) {
  const ArchiveName* longest = nullptr;
  for (const ArchiveName& name : k_archive_names) {
    const bool is_longer = longest == nullptr || name.suffix.size() > longest->suffix.size();
    if (is_longer && has_suffix(path, name.suffix)) longest = &name;
  }
  return longest;
}

std::string_view archive_suffix(std::string_view path) {
  const ArchiveName* name = archive_name(path);
  return name != nullptr && is_archive(*name) ? name->suffix : std::string_view();
}

// ".tar.gz" is an archive that is compressed, and ".gz" any other file.
std::string_view compressed_suffix(std::string_view path) {
  constexpr std::string_view k_tar = ".tar";
  if (archive_name(path) != nullptr) return {};
  for (const ArchiveName& name : k_archive_names) {
    if (name.coding == Coding::plain || !name.suffix.starts_with(k_tar)) continue;
    const std::string_view suffix = name.suffix.substr(k_tar.size());
    if (has_suffix(path, suffix)) return suffix;
  }
  return {};
}

std::string_view image_suffix(std::string_view path) {
  std::string_view found;
  for_each_word(k_image_suffixes, [&](std::string_view suffix) {
    if (has_suffix(path, suffix)) found = suffix;
  });
  return found;
}

Status check_written_archive(std::string_view suffix) {
  const ArchiveName* name = archive_name(suffix);
  if (name == nullptr || name->is_written || !is_archive(*name)) return {};
  return Error{EINVAL, "archives of the kind " + std::string(suffix) + " cannot be written" +
                           (name->use == Use::extracted ? ", only read" : "")};
}

std::string whole_archive(std::string_view path) {
  path.remove_prefix(path.rfind('/') + 1);
  if (archive_name(path) != nullptr) return {};
  const auto endings = part_endings(path);
  const auto found = std::find_if(endings.begin(), endings.end(), [path](std::size_t at) {
    return !archive_suffix(path.substr(0, at)).empty();
  });
  return std::string(found == endings.end() ? std::string_view() : path.substr(0, *found));
}

std::string whole_zip(std::string_view path) {
  path.remove_prefix(path.rfind('/') + 1);
  const std::size_t dot = path.rfind(".z");
  if (dot == std::string_view::npos || dot == 0) return {};
  const std::string_view number = path.substr(dot + 2);
  if (!is_digits(number) || number.size() < 2 || number.size() > 3) return {};
  return std::string(path.substr(0, dot)) + ".zip";
}

bool is_part_name(std::string_view path) { return !part_endings(path).empty(); }

}  // namespace nodestage

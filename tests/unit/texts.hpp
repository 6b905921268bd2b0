// What tests look for in texts, lists and files, and whether they run as root.
#pragma once

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "common/result.hpp"

// Whether `part` is in `text`.
inline bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Whether `text` is one of `texts`.
inline bool has(const std::vector<std::string>& texts, std::string_view text) {
  return std::find(texts.begin(), texts.end(), text) != texts.end();
}

// Each part is there.
inline void check_has(std::string_view text, std::initializer_list<std::string_view> parts) {
  INFO(std::string(text));
  for (const std::string_view part : parts) {
    CAPTURE(std::string(part));
    CHECK(has(text, part));
  }
}

inline void check_has(const std::vector<std::string>& texts,
                      std::initializer_list<std::string_view> parts) {
  for (const std::string_view part : parts) {
    CAPTURE(std::string(part));
    CHECK(has(texts, part));
  }
}

// What a call returns that must succeed.
template <typename T>
T must(nodestage::Result<T> result) {
  REQUIRE_MESSAGE(result, (result ? "" : result.error().text()));
  return std::move(*result);
}

template <typename T>
T must(std::optional<T> found) {
  REQUIRE(found);
  return std::move(*found);
}

// The fault of a call that must fail.
template <typename T>
nodestage::Error must_fail(T result) {
  REQUIRE_FALSE(result);
  return result.error();
}

// The one of its kinds that a variant must hold.
template <typename Kind, typename Any>
const Kind& as(const Any& any) {
  REQUIRE(std::holds_alternative<Kind>(any));
  return std::get<Kind>(any);
}

// The content of a file; "" if it cannot be opened.
inline std::string file_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text;
  std::array<char, 64 * 1024> block;
  while (file.read(block.data(), block.size()), file.gcount() > 0)
    text.append(block.data(), static_cast<std::size_t>(file.gcount()));
  return text;
}

// Bytes that no coding makes smaller; the same ones in every run.
inline std::string noise(std::size_t bytes, std::uint64_t seed = 1) {
  std::string text(bytes, '\0');
  std::uint64_t state = seed * 0x9e3779b97f4a7c15ULL + 1;
  for (std::size_t i = 0; i < text.size(); i += 8) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    std::memcpy(text.data() + i, &state, std::min<std::size_t>(8, text.size() - i));
  }
  return text;
}

#ifdef NODESTAGE_SOURCE_DIR
inline std::string source_text(const std::string& path) {
  return file_text(std::string(NODESTAGE_SOURCE_DIR) + "/" + path);
}
#endif

// Writes `text` into the file, and makes the directories that lead to it.
inline void write_file(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

// A file, or a link, below a directory: its path there, and its text.
struct FileText {
  std::string path;
  std::string text;
};
using FileTexts = std::initializer_list<FileText>;

template <typename Root>
void write_files(const Root& root, FileTexts files) {
  for (const FileText& file : files) write_file(root / file.path, file.text);
}

template <typename Root>
void check_files(const Root& root, FileTexts files) {
  for (const FileText& file : files) {
    CAPTURE(file.path);
    CHECK(file_text(root / file.path) == file.text);
  }
}

template <typename Root>
void check_links(const Root& root, FileTexts links) {
  for (const FileText& link : links) {
    CAPTURE(link.path);
    CHECK(std::filesystem::read_symlink(root / link.path) == std::filesystem::path(link.text));
  }
}

// For `if (skipped_without_root()) return;` at the top of a test.
inline bool skipped_without_root() {
  if (::geteuid() == 0) return false;
  MESSAGE("skipped: needs root");
  return true;
}

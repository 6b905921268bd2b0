// What tests look for in texts, lists and files, and whether they run as root.
#pragma once

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

// Whether `part` is in `text`.
inline bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Whether `text` is one of `texts`.
inline bool has(const std::vector<std::string>& texts, std::string_view text) {
  return std::find(texts.begin(), texts.end(), text) != texts.end();
}

// The content of a file; "" if it cannot be opened.
inline std::string file_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
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

// For `if (skipped_without_root()) return;` at the top of a test.
inline bool skipped_without_root() {
  if (::geteuid() == 0) return false;
  MESSAGE("skipped: needs root");
  return true;
}

#include "cli/cache/cache_names.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_shortest = 8;

std::string key_of(const CacheRow& row) { return row.name.substr(row.name.find('.') + 1); }

}  // namespace

std::vector<const CacheRow*> rows_named(const CacheRows& rows, const std::string& text) {
  std::vector<const CacheRow*> found;
  if (text.empty()) return found;
  const bool has_uid = text.find('.') != std::string::npos;
  for (const CacheRow& row : rows) {
    if ((has_uid ? row.name : key_of(row)).starts_with(text)) found.push_back(&row);
  }
  return found;
}

std::string short_name(const CacheRows& rows, const CacheRow& row) {
  const std::string key = key_of(row);
  for (std::size_t length = k_shortest; length <= key.size(); ++length) {
    std::string name = key.substr(0, length);
    if (rows_named(rows, name).size() == 1) return name;
  }
  return row.name;  // another user has an entry with the same key
}

}  // namespace nodestage

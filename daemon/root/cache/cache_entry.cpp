#include "daemon/root/cache/cache_entry.hpp"

#include <sys/random.h>

#include <algorithm>
#include <array>

#include "common/text/hex_digits.hpp"
#include "common/text/json_fields.hpp"
#include "common/text/parsing.hpp"
#include "common/wire/shared_item.hpp"

namespace nodestage {

// Calls field(name, member) for each member, for both directions. "name" is that of the directory:
// in records of earlier releases it was the entry's, too.
static void each_field(Is<CacheEntry> auto& entry, auto field) {
  field("name", entry.directory);
  field("uid", entry.uid);
  field("gid", entry.gid);
  field("user", entry.user);
  field("tree", entry.tree);
  field("what", entry.what);
  field("source", entry.source);
  field("source_bytes", entry.source_bytes);
  field("bytes", entry.bytes);
  field("files", entry.files);
  field("job", entry.made_by.job);
  field("restart", entry.made_by.restart);
  field("made_at", entry.made_at);
  field("boot", entry.boot);
  field("changed_s", entry.changed.seconds);
  field("changed_ns", entry.changed.nanoseconds);
  field("for_readers", entry.for_readers);
  field("made_for", entry.made_for);
  field("array_job", entry.array_job);
  field("array_task", entry.array_task);
}

namespace {

constexpr int k_version = 1;

bool is_key(std::string_view text) {
  return text.size() == k_share_key_bytes &&
         text.find_first_not_of(k_hex_digits) == std::string_view::npos;
}

}  // namespace

std::optional<ChangeTime> parse_change_time(std::string_view text) {
  const auto seconds = take_number<std::int64_t>(text);
  if (!seconds || !text.starts_with('.')) return {};
  text.remove_prefix(1);
  const auto nanoseconds = take_number<std::uint32_t>(text);
  if (!nanoseconds || !text.empty()) return {};
  return ChangeTime{*seconds, *nanoseconds};
}

std::string entry_name(std::uint32_t uid, std::string_view key) {
  return is_key(key) ? std::to_string(uid) + "." + std::string(key) : std::string();
}

Result<std::string> new_entry_directory(std::uint32_t uid) {
  std::array<unsigned char, k_share_key_bytes / 2> random{};
  if (::getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size()))
    return system_error("getrandom");
  return std::to_string(uid) + "." + hex_digits(random);
}

bool is_tree_name(std::string_view name) {
  return !name.empty() && name.size() <= 255 && name != "." && name != ".." &&
         name.find('/') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

std::string encode_entry(const CacheEntry& entry) {
  auto json = to_json_record(entry);
  json["version"] = k_version;
  json["entry"] = entry.name;
  return json.dump(1);
}

Result<CacheEntry> decode_entry(std::string_view text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded()) return Error{EINVAL, "is not JSON"};
  JsonFields fields(json);
  int version = 0;
  fields.read("version", version);
  if (fields.status() && version != k_version) return Error{EINVAL, "is of another version"};
  CacheEntry entry;
  // Records of 0.1.0's first builds have not the last four.
  fields.read_record(entry, [](std::string_view field) {
    return field != "for_readers" && field != "made_for" && !field.starts_with("array_");
  });
  entry.name = entry.directory;
  if (fields.has("entry")) fields.read("entry", entry.name);
  TRY(fields.status());
  if (!is_tree_name(entry.tree)) return Error{EINVAL, "names no tree"};
  return entry;
}

}  // namespace nodestage

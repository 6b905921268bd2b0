#include "daemon/root/table/repeated_sources.hpp"

#include <algorithm>

#include "common/text/human.hpp"
#include "common/text/pack_advice.hpp"

namespace nodestage {
namespace {

constexpr std::uint64_t k_day_s = 86'400;
constexpr std::size_t k_times = 3;  // of the hint
// Less saved is not worth a hint.
constexpr std::uint64_t k_least_bytes = 1ULL << 30;
constexpr std::uint64_t k_least_ms = 60'000;
constexpr const char* k_since = "the third time in a day that a job of yours stages this here: ";

bool is_directory(const ItemRecord& item) { return field_text(item.what) == "directory"; }

std::string pack_hint(const ItemRecord& item) {
  if (item.files < k_many_files) return {};
  const std::string source = field_text(item.source);
  const bool is_whole = source.size() + 1 < sizeof item.source;  // A longer one is shortened.
  return k_since + ("an archive is faster than " + human_count(item.files)) +
         " files: " + how_to_pack(is_whole ? source : "");
}

}  // namespace

RepeatedSources::User& RepeatedSources::user_of(std::uint32_t uid) {
  if (users_.size() >= k_most_users && !users_.contains(uid)) {
    users_.erase(std::min_element(users_.begin(), users_.end(), [](const auto& a, const auto& b) {
      return a.second.last_s < b.second.last_s;
    }));
  }
  return users_[uid];
}

RepeatedSources::Source& RepeatedSources::source_of(User& user, std::uint64_t mark) {
  auto& sources = user.sources;
  const auto known = std::find_if(sources.begin(), sources.end(),
                                  [mark](const Source& source) { return source.mark == mark; });
  if (known != sources.end()) return *known;
  if (sources.size() < k_most_sources) return sources.emplace_back(Source{.mark = mark});
  const auto oldest =
      std::min_element(sources.begin(), sources.end(),
                       [](const Source& a, const Source& b) { return a.last_s < b.last_s; });
  return *oldest = Source{.mark = mark};
}

std::string RepeatedSources::count(const StagingJob& by, const ItemRecord& item,
                                   std::uint64_t now_s) {
  if (item.source_mark == 0 || state_of(item) != ItemState::done) return {};
  User& user = user_of(by.uid);
  Source& source = source_of(user, item.source_mark);
  if (source.first_s + k_day_s <= now_s) source = {.mark = item.source_mark, .first_s = now_s};
  user.last_s = source.last_s = now_s;
  auto& jobs = source.jobs;
  if (jobs.size() == k_times || std::find(jobs.begin(), jobs.end(), by.job) != jobs.end())
    return {};
  jobs.push_back(by.job);
  if (jobs.size() > 1) {
    source.again_bytes += item.bytes_read;
    source.again_ms += item.elapsed_ms;
  }
  if (jobs.size() < k_times) return {};
  if (is_directory(item)) return pack_hint(item);
  if (source.again_bytes < k_least_bytes && source.again_ms < k_least_ms) return {};
  return k_since +
         ("with ,shared it would have been there at once, and have saved " +
          human_bytes(source.again_bytes)) +
         " and " + human_duration(source.again_ms) + " so far";
}

}  // namespace nodestage

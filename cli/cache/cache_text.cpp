#include "cli/cache/cache_text.hpp"

#include <nlohmann/json.hpp>

#include "cli/base/grid.hpp"
#include "common/text/human.hpp"

namespace nodestage {
namespace {

constexpr int k_json_version = 1;
constexpr std::size_t k_source_width = 40;
constexpr std::size_t k_left_columns = 3;

std::string counted(std::uint64_t count, const char* one) {
  return human_count(count) + " " + one + (count == 1 ? "" : "s");
}

// In the largest unit of which there are two: "90 s", "3 min", "5 h", "2 days". A clock that was
// set back gives 0.
std::string age(std::uint64_t moment, std::uint64_t now) {
  constexpr struct {
    std::uint64_t seconds;
    const char* name;
  } k_units[] = {{86'400, " days"}, {3600, " h"}, {60, " min"}};
  const std::uint64_t seconds = now > moment ? now - moment : 0;
  for (const auto& unit : k_units) {
    if (seconds >= 2 * unit.seconds) return human_count(seconds / unit.seconds) + unit.name;
  }
  return std::to_string(seconds) + " s";
}

std::string amount(const CacheRow& row) {
  return human_bytes(row.bytes) + ", " + counted(row.files, "file");
}

std::vector<std::string> head_of(CacheOwners owners) {
  std::vector<std::string> head = {"NAME",      "SOURCE", "KIND",      "SIZE",    "FILES",
                                   "STAGED BY", "AGE",    "LAST USED", "USED BY", "HITS"};
  if (owners == CacheOwners::name) head.insert(head.begin() + 1, "USER");
  return head;
}

std::vector<std::string> cells_of(const CacheRows& rows, const CacheRow& row, CacheOwners owners,
                                  std::uint64_t now) {
  std::vector<std::string> cells = {printable(short_name(rows, row)),
                                    printable(shortened(row.source, k_source_width)),
                                    row.what.empty() ? "-" : printable(row.what),
                                    human_bytes(row.bytes),
                                    human_count(row.files),
                                    "job " + std::to_string(row.job),
                                    age(row.made_at, now),
                                    age(row.used_at, now) + " ago",
                                    row.jobs == 0 ? "-" : counted(row.jobs, "job"),
                                    human_count(row.hits)};
  if (owners == CacheOwners::name) cells.insert(cells.begin() + 1, printable(row.user));
  return cells;
}

std::size_t left_columns(CacheOwners owners) {
  return k_left_columns + (owners == CacheOwners::name ? 1 : 0);
}

}  // namespace

std::string cache_table(const CacheRows& rows, CacheOwners owners, std::uint64_t now) {
  if (rows.empty())
    return owners == CacheOwners::name ? "this node keeps no shared items\n"
                                       : "this node keeps no shared items of yours\n";
  Grid grid(head_of(owners), left_columns(owners));
  for (const CacheRow& row : rows) grid.add(cells_of(rows, row, owners, now));
  return grid.text();
}

std::string cache_tables(const CachesByNode& caches, CacheOwners owners, std::uint64_t now) {
  if (caches.empty())
    return std::string("the nodes that answered keep no shared items") +
           (owners == CacheOwners::name ? "\n" : " of yours\n");
  std::vector<std::string> head = head_of(owners);
  head.insert(head.begin(), "NODE");
  Grid grid(std::move(head), left_columns(owners) + 1);
  for (const auto& [node, rows] : caches) {
    for (const CacheRow& row : rows) {
      std::vector<std::string> cells = cells_of(rows, row, owners, now);
      cells.insert(cells.begin(), printable(node));
      grid.add(std::move(cells));
    }
  }
  return grid.text();
}

std::string cache_json(const CacheRows& rows) {
  nlohmann::json json{{"version", k_json_version}, {"entries", nlohmann::json::array()}};
  for (const CacheRow& row : rows) {
    json["entries"].push_back({{"name", printable(row.name)},
                               {"uid", row.uid},
                               {"user", printable(row.user)},
                               {"what", printable(row.what)},
                               {"source", printable(row.source)},
                               {"path", printable(row.path)},
                               {"job", row.job},
                               {"made", row.made_at},
                               {"used", row.used_at},
                               {"bytes", row.bytes},
                               {"files", row.files},
                               {"source_bytes", row.source_bytes},
                               {"hits", row.hits},
                               {"jobs", row.jobs}});
  }
  return json.dump(2) + "\n";
}

std::string drop_line(const CacheRow& row, const std::string& name) {
  const std::string item =
      printable(name) + " (" + printable(row.source) + ", " + amount(row) + ")";
  if (!row.fault.empty()) return item + " stays: " + printable(row.fault) + "\n";
  if (row.jobs == 0) return "removed " + item + "\n";
  return item + " stays, because " + counted(row.jobs, "job") +
         (row.jobs == 1 ? " uses it\n" : " use it\n");
}

}  // namespace nodestage

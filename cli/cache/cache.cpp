#include "cli/cache/cache.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/base/conversation.hpp"
#include "cli/base/listing.hpp"
#include "common/os/wall_clock.hpp"
#include "common/text/human.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_shortest = 8;

std::string key_of(const CacheRow& row) { return row.name.substr(row.name.find('.') + 1); }

constexpr int k_cache_json_version = 1;
constexpr std::size_t k_source_width = 40;
constexpr std::size_t k_left_columns = 3;

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
                                    job_name(row.job, row.array_job, row.array_task, row.het_job),
                                    age(row.made_at, now),
                                    age(row.used_at, now) + " ago",
                                    row.jobs == 0 ? "-" : counted(row.jobs, "job", "jobs"),
                                    human_count(row.hits)};
  if (owners == CacheOwners::name) cells.insert(cells.begin() + 1, printable(row.user));
  return cells;
}

std::size_t left_columns(CacheOwners owners) {
  return k_left_columns + (owners == CacheOwners::name ? 1 : 0);
}

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
  nlohmann::json json{{"version", k_cache_json_version}, {"entries", nlohmann::json::array()}};
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
  const std::string item = printable(name) + " (" + printable(row.source) + ", " +
                           human_bytes(row.bytes) + ", " + counted(row.files, "file", "files") +
                           ")";
  if (!row.fault.empty()) return item + " stays: " + printable(row.fault) + "\n";
  if (row.jobs == 0) return "removed " + item + "\n";
  return item + " stays, because " + counted(row.jobs, "job uses it\n", "jobs use it\n");
}

namespace {

int no_rows(const Error& error) {
  return no_answer(error,
                   "Ask the nodes: nodestage cache --all-nodes, or --node=NODE. To remove items of "
                   "one: srun -w NODE -N1 -n1 nodestage cache --drop.");
}

CacheOwners owners_here() { return ::geteuid() == 0 ? CacheOwners::name : CacheOwners::hide; }

int show(const CacheArguments& arguments) {
  const auto rows = ask_for_rows<CacheRow>(arguments.socket, CacheQuery{});
  if (!rows) return no_rows(rows.error());
  if (arguments.nodes.is_pieces) {
    print_pieces({rows->begin(), rows->end()});
    return 0;
  }
  const std::string text =
      arguments.json ? cache_json(*rows) : cache_table(*rows, owners_here(), wall_s());
  std::fputs(text.c_str(), stdout);
  return 0;
}

int show_elsewhere(const CacheArguments& arguments) {
  const GatheredRows gathered =
      gather_rows(arguments.nodes, {"nodestage", "cache", "--pieces"}, arguments.socket);
  if (gathered.code != 0) return gathered.code;
  CachesByNode caches;
  for (const auto& [node, row] : gathered.all<CacheRow>()) caches[node].push_back(row);
  std::fputs(cache_tables(caches, owners_here(), wall_s()).c_str(), stdout);
  return 0;
}

// Adds the names of the entries that the user means.
int find_names(const CacheArguments& arguments, const CacheRows& rows,
               std::set<std::string>& found) {
  for (const std::string& text : arguments.names) {
    const auto named = rows_named(rows, text);
    if (named.size() == 1) {
      found.insert(named.front()->name);
      continue;
    }
    return wrong_usage(
        named.empty() ? "'" + text + "' is not the name of a shared item that this node keeps"
                      : "'" + text + "' is the start of " + human_count(named.size()) + " names",
        "Nothing was removed. `nodestage cache` lists the names.");
  }
  return 0;
}

// Every name must mean one entry before the first is removed.
int drop(const CacheArguments& arguments) {
  const auto known = ask_for_rows<CacheRow>(arguments.socket, CacheQuery{});
  if (!known) return no_rows(known.error());
  std::set<std::string> found;
  if (const int code = find_names(arguments, *known, found); code != 0) return code;
  const CacheDrop request{{found.begin(), found.end()}};
  const auto dropped = ask_for_rows<CacheRow>(arguments.socket, request);
  if (!dropped) return no_rows(dropped.error());
  for (const CacheRow& row : *dropped)
    std::fputs(drop_line(row, short_name(*known, row)).c_str(), stdout);
  if (dropped->empty()) std::printf("this node keeps nothing to remove\n");
  if (std::any_of(dropped->begin(), dropped->end(),
                  [](const CacheRow& row) { return !row.fault.empty(); }))
    return fault("not all of it could be removed", "Show this to your administrators.");
  const bool all_gone = std::all_of(dropped->begin(), dropped->end(),
                                    [](const CacheRow& row) { return row.jobs == 0; });
  return all_gone ? 0
                  : fault("what jobs use was not removed",
                          "Run the same command again when these jobs have ended.");
}

}  // namespace

int cache(const CacheArguments& arguments) {
  if (arguments.nodes.is_elsewhere()) return show_elsewhere(arguments);
  return arguments.drop ? drop(arguments) : show(arguments);
}

}  // namespace nodestage

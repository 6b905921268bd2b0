#include "cli/cache/cache.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "cli/base/conversation.hpp"
#include "cli/cache/cache_text.hpp"
#include "common/os/wall_clock.hpp"
#include "common/text/human.hpp"

namespace nodestage {
namespace {

// Sets `rows` to those of the answer to `request`. Returns an exit code.
int ask(const std::string& socket, const Message& request, CacheRows& rows) {
  const auto code =
      exchange(socket, request, [&rows](const Message& message) -> std::optional<int> {
        if (const auto* row = std::get_if<CacheRow>(&message)) {
          rows.push_back(*row);
          return {};
        }
        if (const auto* refused = std::get_if<Refused>(&message))
          return daemon_fault(refused->what);
        return 0;
      });
  if (code) return *code;
  if (!is_daemon_away(code.error())) return daemon_fault(code.error().text());
  return no_daemon_here(code.error().text(),
                        "Ask the nodes: nodestage cache --all-nodes, or --node=NODE. To remove "
                        "items of one: srun -w NODE -N1 -n1 nodestage cache --drop.");
}

CacheOwners owners_here() { return ::geteuid() == 0 ? CacheOwners::name : CacheOwners::hide; }

int show(const CacheArguments& arguments) {
  CacheRows rows;
  if (const int code = ask(arguments.socket, CacheQuery{}, rows); code != 0) return code;
  if (arguments.nodes.is_pieces) {
    print_pieces({rows.begin(), rows.end()});
    return 0;
  }
  const std::string text =
      arguments.json ? cache_json(rows) : cache_table(rows, owners_here(), wall_s());
  std::fputs(text.c_str(), stdout);
  return 0;
}

int show_elsewhere(const CacheArguments& arguments) {
  const GatheredRows gathered =
      gather_rows(arguments.nodes, {"nodestage", "cache", "--pieces"}, arguments.socket);
  if (gathered.code != 0) return gathered.code;
  CachesByNode caches;
  for (const RowsOfNode& of_node : gathered.nodes) {
    for (const Message& message : of_node.rows) {
      if (const auto* row = std::get_if<CacheRow>(&message)) caches[of_node.node].push_back(*row);
    }
  }
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
  CacheRows known;
  if (const int code = ask(arguments.socket, CacheQuery{}, known); code != 0) return code;
  std::set<std::string> found;
  if (const int code = find_names(arguments, known, found); code != 0) return code;
  CacheRows dropped;
  const CacheDrop request{{found.begin(), found.end()}};
  if (const int code = ask(arguments.socket, request, dropped); code != 0) return code;
  for (const CacheRow& row : dropped)
    std::fputs(drop_line(row, short_name(known, row)).c_str(), stdout);
  if (dropped.empty()) std::printf("this node keeps nothing to remove\n");
  if (std::any_of(dropped.begin(), dropped.end(),
                  [](const CacheRow& row) { return !row.fault.empty(); }))
    return fault("not all of it could be removed", "Show this to your administrators.");
  const bool all_gone = std::all_of(dropped.begin(), dropped.end(),
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

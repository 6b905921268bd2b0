#include "cli/held/held.hpp"

#include <unistd.h>

#include <cstdio>

#include "cli/base/conversation.hpp"
#include "cli/base/grid.hpp"
#include "cli/base/programs.hpp"
#include "common/text/human.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_reason_width = 80;

std::string next_try_text(const HeldRow& row) {
  if (row.next_try == 0) return "no further try can deliver them";
  if (row.next_try <= static_cast<std::uint64_t>(std::time(nullptr)))
    return "being tried again now";
  return "next try " + human_date(row.next_try);
}

std::string size_text(const HeldRow& row) {
  if (row.is_measured == 0) return "size not known";
  return human_bytes(row.bytes) + " in " + human_count(row.inodes) +
         (row.inodes == 1 ? " file" : " files and directories");
}

void print(const HeldRow& row) {
  std::string job = std::to_string(row.job);
  if (row.restart != 0) job += "." + std::to_string(row.restart);
  if (::geteuid() == 0) job += " of uid " + std::to_string(row.uid);
  std::printf("job %s: on %s since %s, %s, kept until %s, %s\n", job.c_str(),
              printable(row.node).c_str(), human_date(row.since).c_str(), size_text(row).c_str(),
              human_date(row.expires).c_str(), next_try_text(row).c_str());
  for (const std::string& reason : row.reasons) std::printf("  %s\n", printable(reason).c_str());
  std::printf("  in %s\n", printable(row.path).c_str());
}

int show_here(const HeldArguments& arguments) {
  std::vector<Message> rows;
  const auto code =
      exchange(arguments.socket, HeldQuery{}, [&](const Message& message) -> std::optional<int> {
        if (std::holds_alternative<HeldRow>(message)) {
          rows.push_back(message);
          return {};
        }
        const auto* refused = std::get_if<Refused>(&message);
        return refused != nullptr ? daemon_fault(refused->what) : 0;
      });
  if (!code && is_daemon_away(code.error()))
    return no_daemon_here(code.error().text(),
                          "Ask the nodes: nodestage held --all-nodes, or --node=NODE.");
  if (!code) return daemon_fault(code.error().text());
  if (*code != 0) return *code;
  if (arguments.nodes.is_pieces) {
    print_pieces(rows);
    return 0;
  }
  for (const Message& row : rows) print(std::get<HeldRow>(row));
  if (rows.empty()) std::printf("this node holds no results of yours\n");
  return 0;
}

std::vector<std::string> cells_of(const std::string& node, const HeldRow& row) {
  std::string job = std::to_string(row.job);
  if (row.restart != 0) job += "." + std::to_string(row.restart);
  const std::string why = row.reasons.empty() ? "-" : printable(row.reasons.front());
  std::vector<std::string> cells = {printable(node),
                                    job,
                                    human_date(row.since),
                                    row.is_measured == 0 ? "-" : human_bytes(row.bytes),
                                    human_date(row.expires),
                                    row.next_try == 0 ? "none" : human_date(row.next_try),
                                    shortened(why, k_reason_width)};
  if (::geteuid() == 0) {
    const auto account = account_of(row.uid);
    cells.insert(cells.begin() + 2, account ? account->name : std::to_string(row.uid));
  }
  return cells;
}

int show_elsewhere(const HeldArguments& arguments) {
  const GatheredRows gathered =
      gather_rows(arguments.nodes, {"nodestage", "held", "--pieces"}, arguments.socket);
  if (gathered.code != 0) return gathered.code;
  std::vector<std::string> head = {"NODE", "JOB", "SINCE", "SIZE", "KEPT UNTIL", "NEXT TRY", "WHY"};
  if (::geteuid() == 0) head.insert(head.begin() + 2, "USER");
  const std::size_t columns = head.size();
  Grid grid(std::move(head), columns);
  std::size_t count = 0;
  for (const RowsOfNode& of_node : gathered.nodes) {
    for (const Message& message : of_node.rows) {
      const auto* row = std::get_if<HeldRow>(&message);
      if (row == nullptr) continue;
      grid.add(cells_of(of_node.node, *row));
      ++count;
    }
  }
  if (count == 0) {
    std::printf("the nodes that answered hold no results%s\n", ::geteuid() == 0 ? "" : " of yours");
    return 0;
  }
  std::printf("%s`nodestage recover JOB DIR --node=NODE` copies them to DIR\n",
              grid.text().c_str());
  return 0;
}

}  // namespace

int show_held(const HeldArguments& arguments) {
  return arguments.nodes.is_elsewhere() ? show_elsewhere(arguments) : show_here(arguments);
}

}  // namespace nodestage

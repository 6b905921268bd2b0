#include "cli/status.hpp"

#include <cstdio>

#include "cli/conversation.hpp"
#include "common/human.hpp"

namespace nodestage {
namespace {

constexpr int k_no_such_job = 3;

void print(const StatusRow& row) {
  std::printf("job %u%s: %s\n", row.job,
              row.restart == 0 ? "" : (" (restart " + std::to_string(row.restart) + ")").c_str(),
              printable(row.state).c_str());
  for (const std::string& line : row.lines) {
    std::printf("  %s\n", printable(line, Newlines::keep).c_str());
  }
}

}  // namespace

int show_status(const std::string& socket, std::uint32_t job) {
  unsigned rows = 0;
  return converse(socket, StatusQuery{job}, [&](const Message& message) -> std::optional<int> {
    if (const auto* row = std::get_if<StatusRow>(&message)) {
      ++rows;
      print(*row);
      return {};
    }
    if (const auto* refused = std::get_if<Refused>(&message)) return daemon_fault(refused->what);
    if (rows == 0) std::printf("nodestaged has no such job of yours on this node\n");
    return rows == 0 && job != 0 ? k_no_such_job : 0;
  });
}

}  // namespace nodestage

#include "cli/held/held.hpp"

#include <unistd.h>

#include <cstdio>

#include "cli/base/conversation.hpp"
#include "common/text/human.hpp"

namespace nodestage {
namespace {

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

}  // namespace

int show_held(const std::string& socket) {
  unsigned rows = 0;
  return converse(socket, HeldQuery{}, [&](const Message& message) -> std::optional<int> {
    if (const auto* row = std::get_if<HeldRow>(&message)) {
      ++rows;
      print(*row);
      return {};
    }
    if (const auto* refused = std::get_if<Refused>(&message)) return daemon_fault(refused->what);
    if (rows == 0) std::printf("this node holds no results of yours\n");
    return 0;
  });
}

}  // namespace nodestage

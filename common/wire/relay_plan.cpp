#include "common/wire/relay_plan.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "common/wire/status_file.hpp"

namespace nodestage {
namespace {

struct PlanRecord {
  std::uint32_t part;
  std::uint32_t port;
  std::uint8_t key[k_relay_key_bytes];
  char node[256];
  char address[64];
  char why[512];
};
static_assert(std::is_trivially_copyable_v<PlanRecord>);

Status put(int fd, const PlanRecord& record, std::size_t from, std::size_t to) {
  const auto* bytes = reinterpret_cast<const char*>(&record);
  const ssize_t count = ::pwrite(fd, bytes + from, to - from, static_cast<off_t>(from));
  if (count < 0) return system_error("relay plan");
  return static_cast<std::size_t>(count) == to - from ? Status() : Error{ENOSPC, "relay plan"};
}

}  // namespace

Status write_relay_plan(int fd, const RelayPlan& plan) {
  PlanRecord record{};
  record.part = static_cast<std::uint32_t>(plan.part);
  record.port = plan.port;
  std::copy(plan.key.begin(), plan.key.end(), record.key);
  set_field(record.node, plan.node);
  set_field(record.address, plan.address);
  set_field(record.why, plan.why);
  TRY(put(fd, record, offsetof(PlanRecord, port), sizeof record));
  return put(fd, record, 0, offsetof(PlanRecord, port));
}

Result<RelayPlan> read_relay_plan(int fd) {
  PlanRecord record{};
  const ssize_t count = ::pread(fd, &record, sizeof record, 0);
  if (count < 0) return system_error("relay plan");
  const auto part = to_enum<RelayPart>(record.part);
  RelayPlan plan;
  if (static_cast<std::size_t>(count) < sizeof record || !part || record.port > 0xffff) return plan;
  plan.part = *part;
  plan.port = static_cast<std::uint16_t>(record.port);
  std::copy(std::begin(record.key), std::end(record.key), plan.key.begin());
  plan.node = field_text(record.node);
  plan.address = field_text(record.address);
  plan.why = field_text(record.why);
  return plan;
}

}  // namespace nodestage

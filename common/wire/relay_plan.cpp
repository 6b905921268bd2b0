#include "common/wire/relay_plan.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>

#include "common/os/file.hpp"
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

}  // namespace

Status write_relay_plan(int fd, const RelayPlan& plan) {
  PlanRecord record{};
  record.part = static_cast<std::uint32_t>(plan.part);
  record.port = plan.port;
  std::copy(plan.key.begin(), plan.key.end(), record.key);
  set_field(record.node, plan.node);
  set_field(record.address, plan.address);
  set_field(record.why, plan.why);
  constexpr std::size_t k_body = offsetof(PlanRecord, port);
  constexpr const char* k_relay_plan = "relay plan";
  TRY(pwrite_all(fd, bytes_of(record).subspan(k_body), k_body, k_relay_plan));
  return pwrite_all(fd, bytes_of(record).first(k_body), 0, k_relay_plan);
}

Result<RelayPlan> read_relay_plan(int fd) {
  PlanRecord record{};
  const auto count = pread_all(fd, bytes_of(record), 0);
  if (!count) return system_error("relay plan", count.error().code);
  const auto part = to_enum<RelayPart>(record.part);
  RelayPlan plan;
  if (*count < sizeof record || !part || record.port > 0xffff) return plan;
  plan.part = *part;
  plan.port = static_cast<std::uint16_t>(record.port);
  std::copy(std::begin(record.key), std::end(record.key), plan.key.begin());
  plan.node = field_text(record.node);
  plan.address = field_text(record.address);
  plan.why = field_text(record.why);
  return plan;
}

}  // namespace nodestage

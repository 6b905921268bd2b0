#include "common/wire/status_file.hpp"

#include <sys/statvfs.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>

#include "common/os/file.hpp"
#include "common/os/mounts.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_claim_offset = offsetof(StatusHeader, claim);
constexpr const char* k_space_record = "space record";

// Writes the body, then the serial that makes it valid.
template <typename Record>
Status put_with_serial(int fd, const Record& record, std::size_t end, std::size_t offset) {
  constexpr std::size_t k_body = sizeof record.serial;
  TRY(pwrite_all(fd, record_bytes(record).first(end).subspan(k_body), offset + k_body,
                 k_space_record));
  return pwrite_all(fd, record_bytes(record.serial), offset, k_space_record);
}

// All zeros if it is not there as a whole.
template <typename Record>
Result<Record> get(int fd, std::size_t offset) {
  Record record{};
  const auto count = pread_all(fd, record_bytes(record), offset);
  if (!count) return system_error(k_space_record, count.error().code);
  return *count == sizeof record ? record : Record{};
}

}  // namespace

SpaceAnswer decide(const SpaceClaim& claim, const Amount& admitted, const Disk& disk) {
  const Amount available = disk.free - Amount{disk.leave_free, 0} - disk.promised;
  const Amount least = claim.least - claim.written;
  const Amount guess = claim.need - claim.written - least;
  const Amount spare = available - least;
  const Amount half{spare.bytes / 2, spare.inodes / 2};
  SpaceAnswer answer{};
  answer.serial = claim.serial;
  answer.granted = fits(least, available) ? 1 : 0;
  answer.admitted = answer.granted != 0 ? claim.written + least + smaller(guess, half) : admitted;
  answer.written = claim.written;
  answer.free = disk.free;
  answer.promised = disk.promised;
  answer.others = disk.others;
  answer.leave_free = disk.leave_free;
  return answer;
}

Amount free_on(int fd) {
  struct statvfs info {};
  if (::fstatvfs(fd, &info) != 0) return {k_no_limit, k_no_limit};
  return {info.f_bavail * info.f_frsize, info.f_files == 0 ? k_no_limit : info.f_favail};
}

Status write_space_claim(int status_fd, const SpaceClaim& claim) {
  constexpr std::size_t k_spare = offsetof(SpaceClaim, with_spare);  // to the record's end
  TRY(pwrite_all(status_fd, record_bytes(claim).subspan(k_spare), k_claim_offset + k_spare,
                 k_space_record));
  return put_with_serial(status_fd, claim, offsetof(SpaceClaim, written), k_claim_offset);
}

Status write_space_written(int status_fd, const Amount& written) {
  const SpaceClaim claim{0, {}, {}, written, 0};
  constexpr std::size_t k_begin = offsetof(SpaceClaim, written);
  return pwrite_all(status_fd, record_bytes(claim).subspan(k_begin, sizeof written),
                    k_claim_offset + k_begin, k_space_record);
}

Result<SpaceClaim> read_space_claim(int status_fd) {
  return get<SpaceClaim>(status_fd, k_claim_offset);
}

Status write_space_answer(int fd, const SpaceAnswer& answer) {
  return put_with_serial(fd, answer, sizeof answer, 0);
}

Result<SpaceAnswer> read_space_answer(int fd) { return get<SpaceAnswer>(fd, 0); }

namespace {

// Long ago: what is in the place of an item that was not staged is the job's.
constexpr std::uint64_t k_not_staged = 1;

constexpr const char* k_status_file = "status file";

Result<std::size_t> read_at(int fd, std::span<std::byte> into, std::size_t offset) {
  auto count = pread_all(fd, into, offset);
  if (!count) return system_error(k_status_file, count.error().code);
  return count;
}

bool is_our_variable(std::string_view assignment) {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string_view::npos || !assignment.starts_with("NODESTAGE_")) return false;
  return std::all_of(
      assignment.begin(), assignment.begin() + static_cast<std::ptrdiff_t>(equals),
      [](char c) { return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; });
}

std::vector<std::string> split_environment(std::string_view area) {
  std::vector<std::string> variables;
  while (!area.empty()) {
    const std::string_view assignment = take_field(area, '\0');
    if (is_our_variable(assignment)) variables.emplace_back(assignment);
  }
  return variables;
}

void bound_numbers(ItemRecord& item) {
  for (std::uint64_t* number :
       {&item.bytes_read, &item.bytes_total, &item.bytes_written, &item.files, &item.elapsed_ms,
        &item.bytes_from_storage, &item.bytes_from_nodes, &item.files_in_all, &item.bytes_in_all,
        &item.deliveries, &item.pruned}) {
    *number = std::min(*number, k_largest_claim);
  }
}

}  // namespace

Status write_status_header(int fd, const StatusHeader& header) {
  return pwrite_all(fd, record_bytes(header).first(offsetof(StatusHeader, claim)), 0,
                    k_status_file);
}

Status write_status_phase(int fd, WorkerPhase phase, std::size_t items, std::string_view cause) {
  StatusHeader header{};
  header.magic = k_status_magic;
  header.phase = static_cast<std::uint32_t>(phase);
  header.items = static_cast<std::uint32_t>(items);
  set_field(header.cause, cause);
  return write_status_header(fd, header);
}

Status write_status_environment(int fd, const std::vector<std::string>& environment) {
  std::string area;
  for (const auto& variable : environment) area.append(variable).push_back('\0');
  if (area.size() > k_max_environment_bytes) return Error{E2BIG, "too many or too long variables"};
  return pwrite_all(fd, std::as_bytes(std::span(area)), k_environment_offset, k_status_file);
}

Status write_status_item(int fd, std::size_t index, const ItemRecord& item) {
  return pwrite_all(fd, record_bytes(item), k_items_offset + index * sizeof item, k_status_file);
}

Result<WorkerStatus> read_worker_status(int fd) {
  StatusHeader header{};
  TRY_ASSIGN(const std::size_t bytes, read_at(fd, record_bytes(header), 0));
  WorkerStatus status;
  if (bytes < offsetof(StatusHeader, claim) || header.magic != k_status_magic ||
      !to_enum<WorkerPhase>(header.phase)) {
    return status;
  }
  status.phase = *to_enum<WorkerPhase>(header.phase);
  status.cause = field_text(header.cause);
  if (status.phase == WorkerPhase::ready || status.phase == WorkerPhase::done) {
    status.chosen = field_text(header.chosen);
    status.outputs = std::min<std::uint32_t>(header.outputs, k_max_request_items);
    status.every_s.assign(std::begin(header.every_s), std::end(header.every_s));
  }

  if (status.phase == WorkerPhase::working && header.relay_port <= 0xffff)
    status.relay_port = static_cast<std::uint16_t>(header.relay_port);

  std::string area(std::min<std::size_t>(header.environment_bytes, k_max_environment_bytes), '\0');
  TRY_ASSIGN(const std::size_t area_bytes,
             read_at(fd, std::as_writable_bytes(std::span(area)), k_environment_offset));
  status.environment = split_environment(std::string_view(area).substr(0, area_bytes));

  status.items.resize(std::min<std::size_t>(header.items, k_max_request_items));
  if (header.failed_item > 0 && header.failed_item <= status.items.size())
    status.failed_item = header.failed_item - 1;
  for (std::size_t i = 0; i < status.items.size(); ++i) {
    ItemRecord& item = status.items[i];
    TRY_ASSIGN(const std::size_t item_bytes,
               read_at(fd, record_bytes(item), k_items_offset + i * sizeof item));
    if (item_bytes < sizeof item || !to_enum<ItemState>(item.state)) {
      item = {};
    }
    bound_numbers(item);
  }
  return status;
}

std::vector<std::uint64_t> staged_ns(const WorkerStatus& status) {
  std::vector<std::uint64_t> times;
  for (const ItemRecord& item : status.items) {
    const ItemState state = state_of(item);
    const bool was_not_staged = state == ItemState::failed || state == ItemState::skipped;
    times.push_back(was_not_staged ? k_not_staged : item.staged_ns);
  }
  return times;
}

}  // namespace nodestage

#include "common/wire/space_claim.hpp"

#include <sys/statvfs.h>

#include <cstddef>
#include <span>

#include "common/os/file.hpp"
#include "common/wire/status_file.hpp"

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

}  // namespace nodestage

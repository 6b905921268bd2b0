#include "daemon/worker/archive/entry_limits.hpp"

#include "common/text/human.hpp"
#include "common/text/parsing.hpp"
#include "daemon/worker/basis/fault.hpp"

namespace nodestage {
namespace {

constexpr const char* k_make_again = "Make the archive again without such an entry";
constexpr const char* k_split = "Split it into several archives";

Status check_name(std::string_view name) {
  if (name.find('\0') != std::string_view::npos)
    return fault(EINVAL, "its name contains a NUL byte, which no file's name can", k_make_again);
  if (name.size() > EntryLimits::k_name_bytes) {
    return fault(ENAMETOOLONG,
                 "its name has " + human_count(name.size()) + " bytes, and at most " +
                     human_count(EntryLimits::k_name_bytes) + " are accepted",
                 k_make_again);
  }
  std::size_t depth = 0;
  while (!name.empty()) {
    const std::string_view part = take_part(name, '/');
    if (!part.empty()) ++depth;
    if (part.size() <= EntryLimits::k_part_bytes) continue;
    return fault(ENAMETOOLONG,
                 "a component of its name has " + human_count(part.size()) +
                     " bytes, and file systems accept at most " +
                     human_count(EntryLimits::k_part_bytes),
                 k_make_again);
  }
  if (depth <= EntryLimits::k_depth) return {};
  return fault(ENAMETOOLONG,
               "it is " + human_count(depth) + " directories deep, and at most " +
                   human_count(EntryLimits::k_depth) + " are accepted",
               k_make_again);
}

Status check_link(const Entry& entry) {
  if (entry.kind != Entry::Kind::symlink && entry.kind != Entry::Kind::hard_link) return {};
  if (entry.link.empty()) return fault(EINVAL, "is a link with an empty target", k_make_again);
  const std::size_t most =
      entry.kind == Entry::Kind::symlink ? EntryLimits::k_link_bytes : EntryLimits::k_name_bytes;
  if (entry.link.size() > most) {
    return fault(ENAMETOOLONG,
                 "is a link with a target of " + human_count(entry.link.size()) +
                     " bytes, and at most " + human_count(most) + " are accepted",
                 k_make_again);
  }
  if (entry.link.find('\0') == std::string::npos) return {};
  return fault(EINVAL, "is a link with a NUL byte in its target", k_make_again);
}

}  // namespace

Status EntryLimits::check(const Entry& entry) {
  if (++entries_ > rules_.max_entries) {
    return fault(E2BIG, "the archive has more than " + human_count(rules_.max_entries) + " entries",
                 k_split);
  }
  TRY(check_name(entry.name));
  TRY(check_link(entry));
  if (entry.kind == Entry::Kind::directory)
    directory_bytes_ += entry.name.size() + k_bytes_beside_name + bytes_of(entry.xattrs);
  if (directory_bytes_ > k_directory_bytes) {
    return fault(E2BIG,
                 "the list of the archive's directories takes more than " +
                     human_bytes(k_directory_bytes) + " of memory",
                 k_split);
  }
  return {};
}

Status EntryLimits::check_ratio(std::uint64_t written) const {
  if (written < k_ratio_from_bytes || written / rules_.max_ratio <= source_bytes_) return {};
  return fault(E2BIG,
               "the source of " + human_bytes(source_bytes_) + " has grown to " +
                   human_bytes(written) + " and is treated as an archive bomb",
               "If it is not one, unpack it once, and stage what that gives");
}

}  // namespace nodestage

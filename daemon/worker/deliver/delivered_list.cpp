#include "daemon/worker/deliver/delivered_list.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <limits>
#include <span>
#include <type_traits>

#include "common/os/file.hpp"
#include "common/text/encodings.hpp"
#include "common/text/human.hpp"

namespace nodestage {
namespace {

constexpr std::uint64_t k_magic = 0x3164766c6567736e;  // "nsgelvd1"
// The most names that are noted, in some 70 MiB of memory. Entries beyond are copied each time.
constexpr std::size_t k_max_delivered_names = std::size_t{1} << 20;
constexpr std::size_t k_records_at_a_time = 1024;
// No times of files.
constexpr std::int64_t k_copy_time = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t k_forgotten = -1;
constexpr const char* k_copy_tail = "//";

struct DeliveredHead {
  std::uint64_t magic;
  std::uint64_t is_busy;
  std::uint64_t unfinished;
  char temporary[k_delivered_head_bytes - 3 * sizeof(std::uint64_t) -
                 2 * k_max_request_items * sizeof(std::uint32_t)];
  std::array<std::uint32_t, k_max_request_items> pruned;
  std::array<std::uint32_t, k_max_request_items> deliveries;
};
static_assert(sizeof(DeliveredHead) == k_delivered_head_bytes);

std::uint64_t name_of(std::size_t item, std::string_view path, const char* tail = "") {
  return fnv1a(tail, fnv1a(path, fnv1a(std::to_string(item) + "/")));
}

std::int64_t nanoseconds(const timespec& time) {
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

// A list that cannot be read or written costs a delivery its shortcut, not its success.
std::size_t read_at(int fd, std::span<std::byte> into, std::uint64_t offset) {
  const auto count = pread_all(fd, into, offset);
  return count ? *count : 0;
}
bool write_at(int fd, std::span<const std::byte> data, std::uint64_t offset) {
  return static_cast<bool>(pwrite_all(fd, data, offset));
}

// Of the header.
template <typename Field>
void write_field(int fd, const Field& field, std::size_t offset) {
  if (fd >= 0) static_cast<void>(write_at(fd, record_bytes(field), offset));
}

// Returns all zeros if there is none.
DeliveredHead read_head(int fd) {
  DeliveredHead head{};
  const bool is_whole = fd >= 0 && read_at(fd, record_bytes(head), 0) == sizeof head;
  if (!is_whole || head.magic != k_magic) return DeliveredHead{};
  head.temporary[sizeof head.temporary - 1] = '\0';
  return head;
}

}  // namespace

struct DeliveredList::Record {
  std::uint64_t name;
  Look look;
  std::uint64_t check;

  [[nodiscard]] std::uint64_t sum() const {
    static_assert(std::is_trivially_copyable_v<Record> && sizeof(Record) == 56);
    return fnv1a({reinterpret_cast<const char*>(this), offsetof(Record, check)});
  }
};

std::string left_temporary(int fd, std::string_view prefix) {
  const DeliveredHead head = read_head(fd);
  const std::string path = head.is_busy != 0 ? head.temporary : "";
  const std::string name = last_part(path);
  const bool is_ours = path.starts_with('/') && path.ends_with(".tmp") && name.starts_with(prefix);
  return is_ours ? path : "";
}

DeliveredList::DeliveredList(int fd) : fd_(fd) {
  const DeliveredHead head = read_head(fd);
  if (head.magic == 0) return;  // a new one, or none
  was_busy_ = head.is_busy != 0;
  unfinished_ = head.unfinished;
  pruned_ = head.pruned;
  deliveries_ = head.deliveries;
  const std::size_t records = read_records();
  std::erase_if(last_, [](const auto& entry) { return entry.second.ctime == k_forgotten; });
  if (records > 2 * last_.size()) compact();
}

// Returns the number of records in the file. An earlier record of a name does no harm where a later
// one cannot be read: nothing looks again as it did before it was changed.
std::size_t DeliveredList::read_records() {
  std::vector<Record> records(k_records_at_a_time);
  std::size_t all = 0;
  for (;;) {
    const std::size_t bytes = read_at(fd_, std::as_writable_bytes(std::span(records)), end_);
    const std::size_t count = bytes / sizeof(Record);
    for (std::size_t i = 0; i < count; ++i) {
      const Record& record = records[i];
      if (record.check == record.sum() && has_room(record.name))
        last_.insert_or_assign(record.name, record.look);
    }
    all += count;
    end_ += count * sizeof(Record);
    if (count < records.size()) return all;
  }
}

// In place, from the start. If the worker is killed meanwhile, the names that were not written yet
// have their last records behind those that were.
void DeliveredList::compact() {
  std::vector<Record> records;
  std::uint64_t end = k_delivered_head_bytes;
  const auto write = [&] {
    const auto data = std::as_bytes(std::span(records));
    if (!write_at(fd_, data, end)) return false;
    end += data.size();
    records.clear();
    return true;
  };
  for (const auto& [name, look] : last_) {
    records.push_back(record_of(name, look));
    if (records.size() == k_records_at_a_time && !write()) return;
  }
  if (!write() || ::ftruncate(fd_, static_cast<off_t>(end)) != 0) return;
  end_ = end;
}

void DeliveredList::begin(std::string_view prefix) {
  if (fd_ < 0) return;
  if (const std::string left = left_temporary(fd_, prefix); !left.empty()) ::unlink(left.c_str());
  const DeliveredHead head{k_magic, 1, unfinished_, {}, pruned_, deliveries_};
  write_field(fd_, head, 0);
}

void DeliveredList::end() {
  constexpr std::uint64_t k_idle = 0;
  write_field(fd_, k_idle, offsetof(DeliveredHead, is_busy));
}

void DeliveredList::note_temporary(std::string_view path) {
  char text[sizeof DeliveredHead::temporary];
  if (fd_ < 0 || path.size() >= sizeof text) return;
  path.copy(text, path.size());
  text[path.size()] = '\0';
  static_cast<void>(write_at(fd_, std::as_bytes(std::span(text)).first(path.size() + 1),
                             offsetof(DeliveredHead, temporary)));
}

bool DeliveredList::begin_output(std::size_t item) {
  output_end_ = end_;
  noted_.clear();
  if (fd_ < 0) return false;
  const std::uint64_t bit = std::uint64_t{1} << item;
  const bool was_cut_off = (unfinished_ & bit) != 0;
  unfinished_ |= bit;
  write_field(fd_, unfinished_, offsetof(DeliveredHead, unfinished));
  return was_cut_off;
}

void DeliveredList::end_output(std::size_t item) {
  if (fd_ < 0) return;
  unfinished_ &= ~(std::uint64_t{1} << item);
  write_field(fd_, unfinished_, offsetof(DeliveredHead, unfinished));
}

std::uint64_t DeliveredList::add_delivery(std::size_t item) {
  ++deliveries_[item];
  write_field(fd_, deliveries_, offsetof(DeliveredHead, deliveries));
  return deliveries_[item];
}

void DeliveredList::add_pruned(std::size_t item, std::uint32_t count) {
  pruned_[item] += count;
  write_field(fd_, pruned_, offsetof(DeliveredHead, pruned));
}

void DeliveredList::take_back() {
  for (const std::uint64_t name : noted_) last_.erase(name);
  noted_.clear();
  if (fd_ >= 0 && ::ftruncate(fd_, static_cast<off_t>(output_end_)) == 0) end_ = output_end_;
}

DeliveredList::Look DeliveredList::look_of(const struct stat& info) {
  return {static_cast<std::uint64_t>(info.st_dev), static_cast<std::uint64_t>(info.st_ino),
          static_cast<std::uint64_t>(info.st_size), nanoseconds(info.st_mtim),
          nanoseconds(info.st_ctim)};
}

DeliveredList::Look DeliveredList::copy_look(std::size_t item, const struct stat& copy) {
  Look look = look_of(copy);
  look.ctime = k_copy_time + static_cast<std::int64_t>(item);
  return look;
}

DeliveredList::Record DeliveredList::record_of(std::uint64_t name, const Look& look) {
  Record record{name, look, 0};
  record.check = record.sum();
  return record;
}

bool DeliveredList::has(std::size_t item, std::string_view path, const struct stat& info) const {
  if (last_.empty()) return false;
  const bool is_directory = S_ISDIR(info.st_mode);
  const auto found = last_.find(name_of(item, path, is_directory ? "/" : ""));
  if (found == last_.end()) return false;
  Look now = look_of(info);
  if (is_directory) {
    now.size = info.st_mode & 07777;
    now.ctime = found->second.ctime;
  }
  return found->second == now;
}

const DeliveredList::Look* DeliveredList::find(std::uint64_t name) const {
  const auto found = last_.find(name);
  return found == last_.end() || found->second.ctime == k_forgotten ? nullptr : &found->second;
}

std::optional<mode_t> DeliveredList::made_mode(std::size_t item, std::string_view path) const {
  const Look* found = find(name_of(item, path, "/"));
  if (found == nullptr || found->ctime != static_cast<std::int64_t>(DirectoryOrigin::delivery))
    return {};
  return static_cast<mode_t>(found->size);
}

std::uint64_t DeliveredList::copy_name(std::size_t item, std::string_view path) {
  return name_of(item, path, k_copy_tail);
}

DeliveredList::CopyNames DeliveredList::copies_but(std::size_t item, const CopyNames& names) const {
  CopyNames others;
  for (const auto& [name, look] : last_)
    if (look.ctime == copy_look(item, {}).ctime && !names.contains(name)) others.insert(name);
  return others;
}

bool DeliveredList::has_copy(std::size_t item, std::string_view path) const {
  return find(copy_name(item, path)) != nullptr;
}

bool DeliveredList::is_copy(std::size_t item, std::string_view path,
                            const struct stat& there) const {
  const Look* noted = find(copy_name(item, path));
  return noted != nullptr && *noted == copy_look(item, there);
}

bool DeliveredList::has_directory(std::size_t item, std::string_view path) const {
  return find(name_of(item, path, "/")) != nullptr;
}

void DeliveredList::add(std::size_t item, std::string_view path, const struct stat& info) {
  note(name_of(item, path), look_of(info));
}

void DeliveredList::add_directory(std::size_t item, std::string_view path, const struct stat& info,
                                  DirectoryOrigin origin) {
  Look look = look_of(info);
  look.size = info.st_mode & 07777;
  look.ctime = static_cast<std::int64_t>(origin);
  note(name_of(item, path, "/"), look);
}

void DeliveredList::add_copy(std::size_t item, std::string_view path, const struct stat& copy) {
  note(copy_name(item, path), copy_look(item, copy));
}

void DeliveredList::forget(std::size_t item, std::string_view path) {
  constexpr Look k_nothing{UINT64_MAX, UINT64_MAX, UINT64_MAX, k_forgotten, k_forgotten};
  for (const char* tail : {"", "/", k_copy_tail})
    if (const std::uint64_t name = name_of(item, path, tail); find(name) != nullptr)
      note(name, k_nothing);
}

void DeliveredList::add_place(std::size_t item, int directory, const std::string& name) {
  if (notes_places_) note(name_of(item, path_of(directory) + "/" + name), {});
}

bool DeliveredList::leave_place(std::size_t item, int directory, const std::string& name) {
  const std::string place = path_of(directory) + "/" + name;
  forget(item, place);
  for (std::size_t i = 0; i < k_max_request_items; ++i)
    if (find(name_of(i, place)) != nullptr) return true;
  return false;
}

bool DeliveredList::has_room(std::uint64_t name) const {
  return last_.size() < k_max_delivered_names || last_.count(name) > 0;
}

void DeliveredList::note(std::uint64_t name, const Look& look) {
  if (fd_ < 0 || !has_room(name)) return;
  last_.insert_or_assign(name, look);
  noted_.push_back(name);
  const Record record = record_of(name, look);
  if (write_at(fd_, record_bytes(record), end_)) end_ += sizeof record;
}

}  // namespace nodestage

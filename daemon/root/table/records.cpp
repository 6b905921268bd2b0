#include "daemon/root/table/records.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string_view>

#include "common/os/wall_clock.hpp"
#include "common/text/parsing.hpp"
#include "common/wire/node_report.hpp"
#include "daemon/root/basis/log.hpp"

namespace nodestage {
namespace {

// Returns nothing for a name that is not a record's.
std::optional<std::pair<JobKey, std::uint32_t>> parse_name(std::string_view name) {
  std::uint32_t numbers[3] = {};
  for (std::uint32_t& number : numbers) {
    const auto read = take_number<std::uint32_t>(name);
    if (!read || !name.starts_with('.')) return {};
    number = *read;
    name.remove_prefix(1);
  }
  if (name != "json") return {};
  return std::pair(JobKey{numbers[0], numbers[1]}, numbers[2]);
}

}  // namespace

Records::Records(const std::string& state_dir, const Config& config) : config_(config) {
  if (const Status opened = open(state_dir); !opened)
    log::error("no records of jobs are kept: {}", opened.error().what);
  trim();
}

Status Records::open(const std::string& state_dir) {
  const std::string path = state_dir + "/records";
  TRY(make_missing_directory(AT_FDCWD, path, 0700));
  TRY_ASSIGN(Fd directory, open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY));
  directory_ = std::move(directory);
  auto names = DirectoryStream::at(directory_->get());
  while (const auto name = names.next()) {
    const auto parsed = parse_name(*name);
    struct stat info {};
    const std::string file(*name);
    if (!parsed || ::fstatat(directory_->get(), file.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0)
      continue;
    if (info.st_size == 0) {  // the power was lost before its bytes were on the disk
      ::unlinkat(directory_->get(), file.c_str(), 0);
      continue;
    }
    entries_[parsed->first] = {parsed->second, static_cast<std::uint64_t>(info.st_mtim.tv_sec)};
  }
  return {};
}

std::string Records::name_of(const Entries::value_type& entry) {
  return to_text(entry.first) + "." + std::to_string(entry.second.uid) + ".json";
}

Records::Entries::iterator Records::remove(Entries::iterator entry) {
  ::unlinkat(directory_->get(), name_of(*entry).c_str(), 0);
  return entries_.erase(entry);
}

bool Records::is_too_old(const Entry& entry) const {
  return entry.written + config_.records.days * k_day_s < wall_s();
}

void Records::trim() {
  for (auto entry = entries_.begin(); entry != entries_.end();)
    entry = is_too_old(entry->second) ? remove(entry) : std::next(entry);
  if (entries_.size() <= config_.records.keep) return;
  std::vector<Entries::iterator> by_age;
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) by_age.push_back(entry);
  const auto kept = by_age.end() - static_cast<std::ptrdiff_t>(config_.records.keep);
  std::nth_element(by_age.begin(), kept - 1, by_age.end(), [](const auto& a, const auto& b) {
    return std::pair(a->second.written, a->first) < std::pair(b->second.written, b->first);
  });
  std::for_each(by_age.begin(), kept, [this](const auto& entry) { remove(entry); });
}

void Records::keep(const JobKey& key, std::uint32_t uid, const std::string& report) {
  if (!directory_ || config_.records.keep == 0) return;
  const Entries::value_type entry{key, {uid, wall_s()}};
  // Job ids repeat when Slurm's counter has been set back.
  const auto other = entries_.find(key);
  if (other != entries_.end() && other->second.uid != uid) remove(other);
  // After a power loss, the newest records may be missing: nothing depends on them.
  const Status written = replace_file_unsynced(directory_->get(), name_of(entry), report, 0600);
  // Logged once, not for each job.
  const int before = std::exchange(fault_, written ? 0 : written.error().code);
  if (!written && before != fault_)
    log::error("records of jobs cannot be written: {}", written.error().what);
  if (written && before != 0) log::info("records of jobs are written again");
  if (!written) return;
  entries_[key] = entry.second;
  trim();
}

std::vector<std::string> Records::find(std::uint32_t job, std::uint32_t uid) const {
  std::vector<std::string> reports;
  for (auto entry = entries_.lower_bound({job, 0});
       entry != entries_.end() && entry->first.job == job; ++entry) {
    if ((uid != 0 && uid != entry->second.uid) || is_too_old(entry->second)) continue;
    auto report = read_file(directory_->get(), name_of(*entry), k_max_report_bytes);
    if (report)
      reports.push_back(std::move(*report));
    else
      log::warn("a record cannot be read: {}", report.error().what);
  }
  return reports;
}

namespace {

constexpr std::chrono::seconds k_pause{1};

}  // namespace

void Turns::ask(std::uint32_t uid, const JobKey& key, Begin begin) {
  User& user = users_[uid];
  if (user.at_work.count(key) > 0 || !user.waiting.insert(key).second) return;
  user.queue.emplace_back(key, std::move(begin));
  go_on(uid);
}

void Turns::end(std::uint32_t uid, const JobKey& key) {
  const auto user = users_.find(uid);
  if (user != users_.end() && user->second.at_work.erase(key) > 0) go_on(uid);
}

bool Turns::leave(std::uint32_t uid, const JobKey& key) {
  const auto user = users_.find(uid);
  if (user == users_.end() || user->second.waiting.erase(key) == 0) return false;
  std::erase_if(user->second.queue, [&key](const auto& waiting) { return waiting.first == key; });
  return true;
}

bool Turns::is_waiting(std::uint32_t uid, const JobKey& key) const {
  const auto user = users_.find(uid);
  return user != users_.end() && user->second.waiting.count(key) > 0;
}

void Turns::go_on(std::uint32_t uid) {
  User& user = users_[uid];
  if (user.is_paused || user.is_looked_at) return;
  user.is_looked_at = true;
  while (!user.is_paused && !user.queue.empty() && user.at_work.size() < of_one_user_) {
    const auto [key, begin] = std::move(user.queue.front());
    user.queue.pop_front();
    user.waiting.erase(key);
    user.at_work.insert(key);
    const Begun begun = begin();
    if (begun == Begun::yes) continue;
    user.at_work.erase(key);
    if (begun == Begun::no) continue;
    user.is_paused = true;
    loop_.after(k_pause, [this, uid] {
      users_[uid].is_paused = false;
      go_on(uid);
    });
  }
  user.is_looked_at = false;
  if (user.queue.empty() && user.at_work.empty() && !user.is_paused) users_.erase(uid);
}

}  // namespace nodestage

#include "daemon/root/table/journal.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "common/text/json_fields.hpp"
#include "common/text/parsing.hpp"
#include "common/wire/status_file.hpp"

namespace nodestage {
namespace {

constexpr std::ptrdiff_t k_files_at_once =
    64;  // each is a descriptor, and one sync of the directory
constexpr std::string_view k_suffix = ".new";

struct Unfinished {
  std::string name;
  std::uint64_t number = 0;
};

// Parses the name of a temporary file. Those of earlier releases have no number.
std::optional<Unfinished> parse_temporary(std::string_view text) {
  if (!text.starts_with('.') || !text.ends_with(k_suffix)) return {};
  text.remove_prefix(1);
  text.remove_suffix(k_suffix.size());
  const std::size_t dot = text.rfind('.');
  if (dot == std::string_view::npos) return {};
  std::string_view digits = text.substr(dot + 1);
  const auto number = take_number<std::uint64_t>(digits);
  if (!number || !digits.empty()) return {};
  return Unfinished{std::string(text.substr(0, dot)), *number};
}

}  // namespace

Status DiskThread::start() {
  event_ = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event_) return system_error("eventfd");
  TRY(loop_.watch(event_.get(), [this] { look(); }));
  // Signals are the loop's.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::pthread_setname_np(thread_.native_handle(), "disk");
  return {};
}

DiskThread::~DiskThread() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  more_.notify_one();
  thread_.join();
  loop_.forget(event_.get());
}

Status DiskThread::replace(int dir_fd, const std::string& name, std::string_view data,
                           OnFault on_fault) {
  std::string temporary = "." + name + "." + std::to_string(++number_) + std::string(k_suffix);
  TRY(write_file(dir_fd, temporary, data, 0600));
  add({{dir_fd, name}, std::move(temporary), std::move(on_fault), {}});
  return {};
}

void DiskThread::remove(int dir_fd, const std::string& name) { add({{dir_fd, name}, "", {}, {}}); }

void DiskThread::add(Change change) {
  std::string older;
  {
    const std::lock_guard lock(mutex_);
    const auto known = newest_.find(change.file);
    if (known != newest_.end()) older = changes_.extract(known->second).mapped().temporary;
    newest_[change.file] = ++asked_;
    const int dir_fd = change.file.first;
    changes_.emplace(asked_, std::move(change));
    if (!older.empty()) ::unlinkat(dir_fd, older.c_str(), 0);
  }
  more_.notify_one();
}

void DiskThread::then(Loop::Callback done) {
  if (thens_.empty() && seen_ == asked_) return done();
  thens_.emplace_back(asked_, std::move(done));
}

void DiskThread::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    more_.wait(lock, [this] { return !changes_.empty() || is_ending_; });
    if (changes_.empty()) return;
    std::vector<Change> changes;
    for (auto& [number, change] : std::exchange(changes_, {})) changes.push_back(std::move(change));
    newest_.clear();
    const std::uint64_t last = asked_;
    lock.unlock();
    work(changes);
    lock.lock();
    done_ = last;
    for (Change& change : changes) {
      if (!change.status && change.on_fault)
        faults_.push_back({std::move(change.on_fault), change.status.error()});
    }
    const std::uint64_t one = 1;
    static_cast<void>(!::write(event_.get(), &one, sizeof one));
  }
}

void DiskThread::work(std::vector<Change>& changes) {
  for (auto from = changes.begin(); from != changes.end();) {
    const auto to = from + std::min(k_files_at_once, changes.end() - from);
    sync_some(from, to);
    from = to;
  }
}

void DiskThread::sync_some(std::vector<Change>::iterator from, std::vector<Change>::iterator to) {
  std::vector<Fd> files;
  for (auto change = from; change != to; ++change) {
    files.emplace_back();
    if (change->temporary.empty()) continue;
    auto file = open_at(change->file.first, change->temporary, O_RDONLY | O_NOFOLLOW);
    if (!file) {
      change->status = file.error();
      continue;
    }
    // All of them are on their way before the first is waited for.
    ::sync_file_range(file->get(), 0, 0, SYNC_FILE_RANGE_WRITE);
    files.back() = std::move(*file);
  }
  std::set<int> directories;
  for (auto change = from; change != to; ++change) {
    const Fd& file = files[static_cast<std::size_t>(change - from)];
    if (file && ::fsync(file.get()) != 0) change->status = system_error(change->temporary);
    if (change->status) put_in_place(*change);
    if (!change->temporary.empty() && change->status) directories.insert(change->file.first);
    if (!change->status) left_[change->file].push_back(change->temporary);
  }
  for (const int directory : directories) {
    if (::fsync(directory) == 0) continue;
    const Error fault = system_error("the directory");
    for (auto change = from; change != to; ++change)
      if (change->file.first == directory && change->status) change->status = fault;
  }
}

void DiskThread::put_in_place(Change& change) {
  const auto& [directory, name] = change.file;
  if (change.temporary.empty())
    ::unlinkat(directory, name.c_str(), 0);
  else if (::renameat(directory, change.temporary.c_str(), directory, name.c_str()) != 0)
    change.status = system_error(name);
  if (!change.status) return;
  const auto left = left_.extract(change.file);
  if (left.empty()) return;
  for (const std::string& temporary : left.mapped()) ::unlinkat(directory, temporary.c_str(), 0);
}

void DiskThread::look() {
  std::uint64_t count = 0;
  static_cast<void>(!::read(event_.get(), &count, sizeof count));
  std::vector<Fault> faults;
  {
    const std::lock_guard lock(mutex_);
    faults = std::exchange(faults_, {});
    seen_ = done_;
  }
  for (const Fault& fault : faults) fault.report(fault.error);
  while (!thens_.empty() && thens_.front().first <= seen_) {
    const Loop::Callback next = std::move(thens_.front().second);
    thens_.pop_front();
    next();
  }
}

void take_unfinished(int dir_fd, std::size_t max_bytes, const IsWhole& is_whole) {
  std::map<std::string, std::map<std::uint64_t, std::string>> unfinished;
  auto names = DirectoryStream::at(dir_fd);
  while (const auto next = names.next()) {
    if (auto known = parse_temporary(*next))
      unfinished[std::move(known->name)][known->number] = std::string(*next);
  }
  bool is_changed = false;
  for (const auto& [name, versions] : unfinished) {
    bool is_taken = false;
    for (auto version = versions.rbegin(); version != versions.rend(); ++version) {
      const std::string& temporary = version->second;
      const auto content = read_file(dir_fd, temporary, max_bytes);
      const auto file = open_at(dir_fd, temporary, O_RDONLY | O_NOFOLLOW);
      if (!is_taken && content && file && is_whole(name, *content) && ::fsync(file->get()) == 0)
        is_taken = ::renameat(dir_fd, temporary.c_str(), dir_fd, name.c_str()) == 0;
      ::unlinkat(dir_fd, temporary.c_str(), 0);
    }
    is_changed = is_changed || is_taken;
  }
  if (is_changed) ::fsync(dir_fd);
}

namespace {

using Json = nlohmann::json;

constexpr int k_journal_version = 1;
constexpr const char* k_entry = ".json";
constexpr const char* k_request = ".request";
constexpr std::size_t k_entry_bytes = std::string_view(k_entry).size();
constexpr std::size_t k_max_entry_bytes = std::size_t{1} << 20;

std::string entry_of(const std::string& request) {
  return request.substr(0, request.size() - std::string_view(k_request).size()) + k_entry;
}

// Without these nothing can be done for a job.
bool is_required(std::string_view field) {
  return field == "job" || field == "restart" || field == "uid" || field == "gid" ||
         field == "state" || field == "directory";
}

}  // namespace

// Calls field(name, member) for each member, for both directions.
static void each_field(Is<JobRecord> auto& record, auto field) {
  field("job", record.begin.job);
  field("restart", record.begin.restart);
  field("uid", record.begin.uid);
  field("gid", record.begin.gid);
  field("user", record.begin.user);
  field("node", record.begin.node);
  field("node_count", record.begin.node_count);
  field("node_index", record.begin.node_index);
  field("first_node", record.begin.first_node);
  field("nodes", record.begin.nodes);
  field("at_allocation", record.begin.slurm_ways);  // its name in 0.1.0
  field("cpus", record.begin.cpus);
  field("work_dir", record.begin.work_dir);
  field("stdout_path", record.begin.stdout_path);
  field("het_job", record.begin.het_job);
  field("state", record.state);
  field("directory", record.directory);
  field("directory_is_ours", record.directory_is_ours);
  field("in_hold", record.in_hold);
  field("may_have_run", record.may_have_run);
  field("announced", record.announced);
  field("ended", record.ended);
  field("cause", record.cause);
  field("failure", record.failure);
  field("begun_ms", record.times.begun);
  field("staging_ms", record.times.staging);
  field("staged_ms", record.times.staged);
  field("decided_ms", record.times.decided);
  field("run_ms", record.times.run);
  field("ended_ms", record.times.ended);
  field("out_ms", record.times.out);
  field("out_end_ms", record.times.out_end);
  field("held_ms", record.times.held);
  field("gone_ms", record.times.gone);
  field("worker_pid", record.worker.pid);
  field("worker_start_ticks", record.worker.start_ticks);
  field("batch_status", record.batch_status);
  field("last_status", record.last_status);
  field("last_step", record.last_step);
  field("exit_code", record.exit_code);
  field("stage_outs", record.stage_outs);
  field("held_since", record.hold.since);
  field("retry_at", record.hold.retry_at);
  field("held_bytes", record.hold.bytes);
  field("held_inodes", record.hold.inodes);
  field("is_measured", record.hold.is_measured);
  field("is_told", record.hold.notice_is_current);
  field("warned_at", record.hold.warned_at);
  field("delivered", record.hold.delivered);
  field("reasons", record.hold.reasons);
  field("waits_for_user", record.hold.waits_for_user);
  field("facts_known", record.facts.known);
  field("array_job", record.facts.array_job);
  field("array_task", record.facts.array_task);
  field("job_name", record.facts.job_name);
  field("batch", record.facts.batch);
  field("begun_at", record.begun_at);
  field("credit_minutes", record.credit_minutes);
  field("credited", record.credited);
  field("is_looked_at", record.is_looked_at);
  field("pusher_pid", record.pusher.pid);
  field("pusher_start_ticks", record.pusher.start_ticks);
  field("relayer_pid", record.relayer.pid);
  field("relayer_start_ticks", record.relayer.start_ticks);
  field("server_pid", record.server.pid);
  field("server_start_ticks", record.server.start_ticks);
  field("images_known", record.images_known);
  field("images_served", record.images_served);
  field("image_fault", record.image_fault);
  field("pushes_in_all", record.pushes_in_all);
  field("push_has_failed", record.push_has_failed);
  field("verdict", record.verdict);
  field("verdict_text", record.verdict_text);
  field("verdict_cause", record.verdict_cause);
  field("outcome_known", record.outcome_known);
  field("first_status", record.first_status);
  field("directory_was_there", record.directory_was_there);
  field("shared", record.shared);
  field("pushes", record.pushes);
}

std::string encode_record(const JobRecord& record) {
  Json json = to_json_record(record);
  json["version"] = k_journal_version;
  // In lists (of nodes, of reasons), what is not UTF-8 becomes U+FFFD instead of a throw.
  return json.dump(1, ' ', false, Json::error_handler_t::replace);
}

Result<JobRecord> decode_record(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return Error{EINVAL, "is not JSON"};
  JsonFields fields(json);
  int version = 0;
  fields.read("version", version);
  if (fields.status() && version != k_journal_version)
    return Error{EINVAL, "a journal entry of another version"};
  JobRecord record;
  fields.read_record(record, is_required);
  TRY(fields.status());
  return record;
}

Result<Journal> Journal::open(const std::string& state_dir) {
  for (const std::string& path : {state_dir, state_dir + "/jobs"})
    TRY(make_missing_directory(AT_FDCWD, path, 0700));
  TRY_ASSIGN(Fd directory, open_at(AT_FDCWD, state_dir + "/jobs", O_RDONLY | O_DIRECTORY));
  return Journal(std::move(directory));
}

Status Journal::replace(const JobKey& key, const char* suffix, std::string_view data) const {
  const std::string name = to_text(key) + suffix;
  if (disk_ == nullptr) return replace_file(directory_.get(), name, data, 0600);
  return disk_->replace(directory_.get(), name, data, [this, key](const Error& fault) {
    if (on_fault_) on_fault_(key, fault);
  });
}

Status Journal::save(const JobRecord& record) const {
  return replace(record.key(), k_entry, encode_record(record));
}

Status Journal::save_request(const JobRecord& record) const {
  return replace(record.key(), k_request, record.begin.request);
}

void Journal::forget(const JobKey& key) const {
  for (const char* suffix : {k_entry, k_request}) {
    const std::string name = to_text(key) + suffix;
    if (disk_ == nullptr)
      ::unlinkat(directory_.get(), name.c_str(), 0);
    else
      disk_->remove(directory_.get(), name);
  }
}

void Journal::then(Loop::Callback done) const {
  disk_ == nullptr ? done() : disk_->then(std::move(done));
}

bool Journal::has(const std::string& name) const {
  return ::faccessat(directory_.get(), name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
         errno != ENOENT;
}

// Left by a daemon that died while it wrote: not an entry yet.
bool Journal::is_half_written(const std::string& name) const {
  if (name.starts_with('.')) return name.ends_with(".new");
  return name.ends_with(k_request) && !has(entry_of(name));
}

Journal::Loaded Journal::load() const {
  Loaded loaded;
  // In the order of their names: an entry before its request, which was written before it.
  take_unfinished(directory_.get(), k_max_entry_bytes,
                  [this](const std::string& name, const std::string& content) {
                    if (name.ends_with(k_request)) return has(entry_of(name));
                    return static_cast<bool>(decode_record(content));
                  });
  auto names = DirectoryStream::at(directory_.get());
  while (const auto next = names.next()) {
    const std::string name(*next);
    if (is_half_written(name)) ::unlinkat(directory_.get(), name.c_str(), 0);
    if (name.starts_with('.') || !name.ends_with(k_entry)) continue;
    const std::string request_name = name.substr(0, name.size() - k_entry_bytes) + k_request;
    const auto text = read_file(directory_.get(), name, k_max_entry_bytes);
    auto record = text ? decode_record(*text) : Result<JobRecord>(text.error());
    auto request = read_file(directory_.get(), request_name, k_max_request_bytes);
    if (!record || !request) {
      loaded.faults.push_back(name + ": " + (record ? request.error().what : record.error().what));
      continue;
    }
    record->begin.request = std::move(*request);
    loaded.records.push_back(std::move(*record));
  }
  return loaded;
}

}  // namespace nodestage

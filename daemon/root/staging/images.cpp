#include "daemon/root/staging/images.hpp"

#include <algorithm>

#include "common/text/human.hpp"
#include "daemon/root/basis/log.hpp"

namespace nodestage {
namespace {

constexpr const char* k_not_reported =
    "the prolog on this node has not reported that it has mounted them (was slurmd started since "
    "nodestage was upgraded?)";

// A request with more is refused by the worker.
std::size_t images_of(const JobRecord& record) {
  return std::min(images_in(record.begin.request), k_max_images);
}

}  // namespace

void Images::prepare(JobRecord& record) const {
  const std::size_t count = images_of(record);
  if (count == 0) return;
  const Status made = deps_.areas.make_image_mounts(record.key(), count);
  if (made) return;
  record.images_known = true;
  record.image_fault = made.error().what;
}

bool Images::is_awaited(const JobRecord& record) {
  return images_of(record) > 0 && !record.images_known;
}

void Images::await(JobRecord& record) {
  if (const auto reported = reports_.extract(record.key())) return take(record, reported.mapped());
  deps_.loop.after(std::chrono::seconds(deps_.config.peer.begin_wait_s),
                   [this, key = record.key()] {
                     JobRecord* waiting = deps_.table.find(key);
                     if (waiting != nullptr && is_awaited(*waiting))
                       decide(*waiting, k_not_reported);
                   });
}

void Images::decide(JobRecord& record, const std::string& fault) {
  const JobKey key = record.key();
  record.images_known = true;
  record.image_fault = fault;
  if (!fault.empty()) log::warn(about(record), "its images are not mounted: {}", fault);
  deps_.table.save(record);
  if (deps_.events.step_of(key) == Step::await_mounts) deps_.events.done(key, Fact::queued);
}

// The first word counts. A site may make the job's directory after the hook has run.
Status Images::mounted(JobRecord& record, std::string fault, std::vector<Fd> fuse) {
  if (record.ended || !is_awaited(record) || reports_.contains(record.key()))
    return Error{EEXIST, "nothing is to be mounted for it"};
  Report report{std::move(fault), std::move(fuse)};
  if (record.state == JobState::waiting_for_directory)
    reports_[record.key()] = std::move(report);
  else
    take(record, report);
  return {};
}

void Images::take(JobRecord& record, const Report& report) {
  std::string why = printable(report.fault, Newlines::join);
  if (why.empty() && report.fuse.size() != images_of(record))
    why = "the prolog's hook has mounted " + human_count(report.fuse.size()) + " of " +
          human_count(images_of(record));
  const Status started = why.empty() ? start_worker(record, report.fuse) : Status();
  if (!started) why = "the process that serves them cannot be started: " + started.error().what;
  record.images_served = why.empty();
  decide(record, why);
}

Status Images::start_worker(JobRecord& record, const std::vector<Fd>& fuse) {
  TRY_ASSIGN(const Fd directory, deps_.files.directory(record));
  WorkerStart start = deps_.workers.order(record, WorkerTask::serve);
  auto& order = std::get<ServeOrder>(start.order);
  order.images = static_cast<std::uint32_t>(fuse.size());
  start.directory_fd = directory.get();
  for (const Fd& fd : fuse) start.fuse_fds.push_back(fd.get());
  return deps_.workers.start(
      record, start, deps_.workers.bounds(record, WorkerTask::serve),
      [this](const JobKey& key, const WorkerEnd& end) { worker_ended(key, end); });
}

// What it has reported itself, while it served or before.
bool Images::take_fault(JobRecord& record) {
  const WorkerStatus status = deps_.files.status(record.key(), WorkerTask::serve);
  if (status.phase == WorkerPhase::failed)
    record.image_fault = printable(status.cause, Newlines::join);
  return status.phase == WorkerPhase::failed || status.phase == WorkerPhase::done;
}

// It is done when the epilog's hook has detached all. Before that, whoever uses an image gets
// ENOTCONN at once, and the output says why when the job has ended.
void Images::worker_ended(const JobKey& key, const WorkerEnd& end) {
  JobRecord* record = deps_.table.find(key);
  if (record == nullptr || record->ended) return;
  // The kernel's word on memory says more than what the worker has reported.
  if (end.kind == WorkerEnd::Kind::no_memory || !take_fault(*record))
    record->image_fault = "the process that serves them " + end.text;
  if (!record->image_fault.empty())
    log::warn(about(*record), "its images: {}", record->image_fault);
  deps_.table.save(*record);
}

void Images::stop(JobRecord& record) {
  reports_.erase(record.key());
  if (!deps_.workers.is_working(record.key(), WorkerTask::serve)) return;
  static_cast<void>(take_fault(record));
  deps_.workers.kill(record.key(), WorkerTask::serve);
}

ImageRules Images::rules(const JobRecord& record) const {
  ImageRules rules;
  rules.refusal = record.image_fault;
  for (std::size_t i = 0; rules.refusal.empty() && i < images_of(record); ++i)
    rules.mounts.push_back(deps_.areas.image_mount(record.key(), i));
  return rules;
}

// Where the last daemon had no word of the hook, that is still to come.
void Images::adopt(JobRecord& record) {
  if (is_awaited(record)) return prepare(record);
  if (!record.images_served || !record.image_fault.empty()) return;
  const bool lives = deps_.workers.adopt(
      record, WorkerTask::serve,
      [this](const JobKey& key, const WorkerEnd& end) { worker_ended(key, end); });
  if (!lives) return worker_ended(record.key(), {WorkerEnd::Kind::ended, "ended"});
  if (record.ended) stop(record);
}

std::vector<std::string> Images::leftovers(const JobRecord* of, std::size_t most) const {
  std::vector<std::string> paths;
  for (const JobKey& key : deps_.areas.jobs_with_images()) {
    const JobRecord* record = deps_.table.find(key);
    if (record != nullptr && record != of && !record->ended) continue;
    for (std::size_t i = 0; i < k_max_images && paths.size() < most; ++i) {
      const std::string path = image_mounts_name(key.job, key.restart) + "/" + std::to_string(i);
      if (deps_.areas.is_covered(path)) paths.push_back(path);
    }
  }
  return paths;
}

void Images::remove_again() const {
  for (const JobKey& key : deps_.areas.jobs_with_images()) {
    if (deps_.table.find(key) == nullptr) deps_.areas.remove_image_mounts(key);
  }
}

}  // namespace nodestage

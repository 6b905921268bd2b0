#include <algorithm>
#include <cerrno>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "common/request/request.hpp"
#include "common/text/human.hpp"
#include "common/text/path_names.hpp"
#include "common/wire/daemon_client.hpp"
#include "common/wire/worker_order.hpp"
#include "plugin/hooks.hpp"
#include "plugin/left_mounts.hpp"
#include "plugin/left_writers.hpp"
#include "plugin/marker.hpp"
#include "plugin/slurm_host.hpp"

namespace nodestage {
namespace {

// Time between our end and the epilog's limit, for the rest of Slurm's epilog.
constexpr std::chrono::seconds k_timeout_reserve{15};
// The daemon gets a shorter limit than our own wait, so that its answer arrives in time.
constexpr std::chrono::seconds k_answer_reserve{2};
// How long the daemon may take to say where the job's directory is.
constexpr std::chrono::seconds k_place_wait{5};

// The fault of a job that could not be announced, for its user.
Error not_announced(const Begin& begin, const std::string& cause) {
  return {0, "no data could be staged on this node: " + cause + ".",
          "Submit the job again; --exclude=" + begin.node +
              " avoids this node. If it happens again, tell your administrators."};
}

// Whether this job can be staged on any node.
Status check_request(const Begin& begin) {
  const std::string nothing = "nothing was staged on this node: ";
  if (begin.request.size() > k_max_request_bytes)
    return Error{E2BIG,
                 "the staging request has " + human_count(begin.request.size()) +
                     " bytes, and at most " + human_count(k_max_request_bytes) + " are possible.",
                 "Use fewer or shorter --stage-dataset, --stage-venv and --stage-out options (for "
                 "example, one glob instead of many names) and submit the job again."};
  if (begin.uid == 0)
    return Error{EPERM, nothing + "nodestage does not stage for root.",
                 "Submit the job as an ordinary user."};
  if (begin.gid == 0)
    return Error{
        EPERM,
        nothing + "the job's group is root's (gid 0), and nodestage does not stage for that.",
        "If root submits for a user, `sbatch --uid=USER` alone keeps root's group: add "
        "--gid=GROUP."};
  return {};
}

void log_fault(std::uint32_t job, const std::string& what) {
  slurm_error("nodestage: job %u: %s", job, printable(what, Newlines::join).c_str());
}

// A daemon that was reached and is only slow has the request and may still take it: the tasks ask
// it.
Status announce(const PluginSettings& settings, const Begin& begin) {
  const Deadline deadline = Clock::now() + settings.begin_wait;
  const auto reply = ask_daemon(settings.socket, begin, deadline, deadline);
  if (!reply && reply.error().code == ETIMEDOUT) {
    log_fault(begin.job, reply.error().what + "; its tasks ask nodestaged again");
    return {};
  }
  if (!reply)
    return not_announced(begin, "nodestaged does not answer (" + reply.error().what + ")");
  if (std::holds_alternative<Accepted>(reply.value())) return {};
  if (const auto* refused = std::get_if<Refused>(&reply.value())) {
    // It would be refused again.
    if (refused->reason == RefusalReason::not_permitted)
      return Error{EPERM, "nothing was staged: " + refused->what};
    return not_announced(begin, "nodestaged refused the job (" + refused->what + ")");
  }
  return not_announced(begin, "nodestaged gave an unexpected answer");
}

// A fault: the daemon does not know the job, and its user is to read why.
Status begin_job(const PluginSettings& settings, const Begin& begin) {
  TRY(check_request(begin));
  return announce(settings, begin);
}

// Returns the limit for the epilog hook.
std::chrono::seconds epilog_limit(const PluginSettings& settings) {
  const auto wait = epilog_wait_of(settings, powers_down(text_from_environment("SLURMD_NODENAME")));
  const auto timeout = epilog_timeout();
  if (!timeout) return wait;
  return std::clamp(*timeout - k_timeout_reserve, std::chrono::seconds(1), wait);
}

void log_end(std::uint32_t job, const Message& reply) {
  const auto* ended = std::get_if<Ended>(&reply);
  if (ended == nullptr) {
    const auto* refused = std::get_if<Refused>(&reply);
    log_fault(job, "at its end: " + (refused == nullptr ? "nodestaged gave an unexpected answer"
                                                        : "nodestaged refuses: " + refused->what));
  } else if (ended->outcome == EndOutcome::lost) {
    slurm_error("nodestage: job %u: a result could not be delivered and cannot be kept: %s", job,
                printable(ended->what).c_str());
  } else if (ended->outcome == EndOutcome::background || ended->outcome == EndOutcome::held) {
    slurm_info("nodestage: job %u: %s: %s", job,
               ended->outcome == EndOutcome::held ? "a result is held on this node"
                                                  : "results are still being copied",
               printable(ended->what).c_str());
  }
}

// A process that has something open in what is kept could fill it after it was measured.
void end_left_writers(const PluginSettings& settings, const End& end) {
  const auto ask = [&]() -> std::optional<PlaceRow> {
    const Deadline limit = Clock::now() + k_answer_reserve;
    const auto reply = ask_daemon(settings.socket, PlaceQuery{end.job, end.restart}, limit, limit);
    const auto* placed = reply ? std::get_if<PlaceRow>(&reply.value()) : nullptr;
    return placed == nullptr ? std::nullopt : std::optional(*placed);
  };
  const auto placed = ask();
  if (!placed) return;
  // A daemon that does not answer now may have a worker there.
  const auto ask_workers = [&] {
    const auto now = ask();
    return now ? std::optional(now->workers) : std::nullopt;
  };
  const EndedJob job{end.job, number_from_environment("SLURM_JOB_UID"), jobs_have_cgroups()};
  for (const auto& [pid, proof] :
       kill_left_writers(placed->root + "/" + placed->held, job, ask_workers))
    slurm_info("nodestage: job %u: killed the process %d, which %s", end.job, pid,
               proof == Proof::open ? "had results open that are kept"
                                    : "kept open files hidden (in a message or in io_uring)");
}

// What users have mounted with FUSE where it keeps trees from being moved or removed. Mounts over
// the job directory itself are detached before the job's end, so that the daemon reaches it, and
// after it. Those below stay until the results are delivered, because one of them can be a part of
// an output, which must not look delivered: then they are where nothing is needed any more. There,
// what any user has mounted is detached, since nothing else detaches what a job has left.
class UserMounts {
 public:
  UserMounts(const PluginSettings& settings, const PlaceQuery& job, Deadline limit)
      : job_(job.job), own_images_(image_mounts_name(job.job, job.restart) + "/") {
    if (users_fuse_mounts().empty()) return;
    const Deadline reach = std::min(limit, Clock::now() + settings.begin_wait);
    const Deadline answer = std::min(limit, std::max(reach, Clock::now() + k_place_wait));
    const auto reply = ask_daemon(settings.socket, job, reach, answer);
    if (const auto* placed = reply ? std::get_if<PlaceRow>(&reply.value()) : nullptr) {
      row_ = *placed;
    } else {
      log_fault(job_, "mounts that jobs may have left (FUSE) are not looked for: " +
                          (reply ? "nodestaged does not say where" : reply.error().what));
    }
  }

  // Of the job itself, images are detached at its end alone.
  enum class Own { spared, detached };
  void detach_over_job_directories(Own own) const {
    detach([this, own](std::string_view path) {
      if (own == Own::spared && path.starts_with(own_images_)) return false;
      return std::find(row_.directories.begin(), row_.directories.end(), path) !=
             row_.directories.end();
    });
  }

  void detach_where_unwanted() const {
    detach([this](std::string_view path) {
      return std::any_of(row_.places.begin(), row_.places.end(),
                         [path](const std::string& place) { return is_below(path, place); });
    });
  }

 private:
  void detach(const std::function<bool(std::string_view)>& chosen) const {
    if (row_.root.empty()) return;
    const LeftMounts left = detach_left_mounts(row_.root, chosen);
    for (const std::string& path : left.detached)
      if (!path.starts_with(k_image_area))
        slurm_info(
            "nodestage: job %u: detached %s/%s, which programs of a job had left mounted (FUSE)",
            job_, row_.root.c_str(), printable(path).c_str());
    for (const std::string& what : left.kept)
      log_fault(job_, "left mounted, and cannot be detached: " + row_.root + "/" + what);
  }

  std::uint32_t job_;
  std::string own_images_;
  PlaceRow row_;
};

// Mounts the images of a job that has begun, and hands them to the daemon, which has them served. A
// fault is the daemon's to tell: the items fail with it.
void mount_images(const PluginSettings& settings, const Begin& begin) {
  const std::size_t count = std::min(images_in(begin.request), k_max_images);
  if (count == 0) return;
  const auto ask = [&settings](const Message& question, const std::vector<int>& descriptors = {}) {
    const Deadline reach = Clock::now() + settings.begin_wait;
    return ask_daemon(settings.socket, question, reach,
                      std::max(reach, Clock::now() + k_place_wait), descriptors);
  };
  const auto placed = ask(PlaceQuery{begin.job, begin.restart});
  const auto* row = placed ? std::get_if<PlaceRow>(&placed.value()) : nullptr;
  if (row == nullptr)
    return log_fault(begin.job, "its images are not mounted: nodestaged does not say where");
  const auto mounts = mount_images(row->root + "/" + image_mounts_name(begin.job, begin.restart),
                                   count, ImageUser{begin.uid, begin.gid});
  const ImagesMounted report{begin.job, begin.restart, mounts ? "" : mounts.error().what};
  if (!mounts) log_fault(begin.job, "its images are not mounted: " + report.fault);
  std::vector<int> descriptors;
  for (std::size_t i = 0; mounts && i < count; ++i) descriptors.push_back((*mounts)[i].get());
  const auto reply = ask(report, descriptors);
  const auto* refused = reply ? std::get_if<Refused>(&reply.value()) : nullptr;
  if (!reply || refused != nullptr)
    log_fault(begin.job, "nodestaged does not serve its images: " +
                             (reply ? refused->what : reply.error().what));
}

// What the tasks of the job could not tell the daemon when it was away. The answer to a wait may
// not come, and is not needed.
void send_pending(const PluginSettings& settings, std::uint32_t job, Deadline reach,
                  Deadline limit) {
  for (const std::string& packet : pending(settings.runtime_dir, job)) {
    const auto message = decode_message(packet);
    if (!message) continue;
    const Deadline answer = std::min(limit, std::max(reach, Clock::now() + k_place_wait));
    const auto reply = ask_daemon(settings.socket, *message, reach, answer);
    if (reply || reply.error().code == ETIMEDOUT) continue;
    return log_fault(job, "the end of a task is not reported: " + reply.error().what);
  }
}

void end_job(const PluginSettings& settings, End end) {
  const auto limit = epilog_limit(settings);
  const Deadline start = Clock::now();
  const UserMounts mounts(settings, {end.job, end.restart}, start + limit);
  mounts.detach_over_job_directories(UserMounts::Own::detached);
  const auto left = std::chrono::round<std::chrono::seconds>(start + limit - Clock::now());
  end.limit_s = static_cast<std::uint32_t>(
      std::max(left - k_answer_reserve, std::chrono::seconds(1)).count());
  const Deadline reach = std::min(Clock::now() + settings.begin_wait, start + limit);
  send_pending(settings, end.job, reach, start + limit);
  const auto reply = ask_daemon(settings.socket, end, reach, start + limit);
  mounts.detach_over_job_directories(UserMounts::Own::detached);
  mounts.detach_where_unwanted();
  if (reply) {
    log_end(end.job, reply.value());
    const auto* ended = std::get_if<Ended>(&reply.value());
    if (ended != nullptr && ended->outcome == EndOutcome::held) end_left_writers(settings, end);
  } else {
    log_fault(end.job, "nodestaged did not confirm the end of the job (" + reply.error().what +
                           "); it detects the end by itself");
  }
}

}  // namespace

int job_prolog(const PluginSettings& settings) {
  if (requested_staging().empty() && !wants_every_job(settings.runtime_dir)) return 0;
  const Begin begin = begin_from_environment();
  // Root's jobs get no directory even if every job gets one: the daemon would refuse and fail them.
  if (begin.request.empty() && (begin.uid == 0 || begin.gid == 0)) return 0;
  // Write the marker first: if this process is killed after that, the tasks ask the daemon, which
  // answers that it does not know the job.
  if (const Status marked = write_marker(settings.runtime_dir, begin.job, ""); !marked) {
    log_fault(begin.job, "its marker cannot be written: " + marked.error().what);
    return 0;
  }
  const Status begun = begin_job(settings, begin);
  // What an earlier job has left mounted may pin the space that this one needs.
  if (begun) {
    const UserMounts mounts(settings, {begin.job, begin.restart}, Clock::now() + k_place_wait);
    mounts.detach_over_job_directories(UserMounts::Own::spared);
    mounts.detach_where_unwanted();
    mount_images(settings, begin);
    return 0;
  }
  log_fault(begin.job, begun.error().what);
  const Status marked = write_marker(settings.runtime_dir, begin.job, begun.error().text());
  if (!marked) log_fault(begin.job, marked.error().what);
  return 0;
}

int job_epilog(const PluginSettings& settings) {
  const End end = end_from_environment();
  const bool marked = read_marker(settings.runtime_dir, end.job).state != MarkerState::absent;
  if (!marked && requested_staging().empty() && !wants_every_job(settings.runtime_dir)) return 0;
  const std::uint64_t number = marker_number(settings.runtime_dir, end.job);
  end_job(settings, end);
  // If Slurm has given up this node meanwhile, the job's next run can already be here.
  if (marker_number(settings.runtime_dir, end.job) == number)
    remove_marker(settings.runtime_dir, end.job);
  return 0;
}

}  // namespace nodestage

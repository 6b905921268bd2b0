#include "daemon/root/held/hold.hpp"

#include <algorithm>

#include "common/os/wall_clock.hpp"
#include "common/talk/summary.hpp"
#include "common/text/human.hpp"

namespace nodestage {
namespace {

// 2023: a node whose clock shows less has booted without one, and gets the time soon.
constexpr std::uint64_t k_clock_floor = 1'672'531'200;
constexpr std::size_t k_most_reasons = 16;
constexpr std::size_t k_reason_width = 600;
constexpr std::size_t k_jobs_width = 400;
constexpr std::uint64_t k_largest = 1ULL << 60;  // of one tree: a worker's figure is a claim

std::string title(const JobRecord& record) {
  return "nodestage: job " + std::to_string(record.begin.job) +
         (record.begin.restart == 0 ? "" : ", restart " + std::to_string(record.begin.restart)) +
         ", node " + printable(record.begin.node) + "\n\n";
}

std::string updated() { return "\n(Written " + human_date(wall_s()) + ".)\n"; }

// When the job's directory was in use by a worker or a task of the job, as far as is known here.
std::uint64_t last_seen_ms(const JobRecord& record) {
  std::uint64_t seen = std::max({record.times.begun, record.times.staged, record.times.run});
  for (const ReportPush& push : record.pushes) seen = std::max(seen, push.ended);
  return seen;
}

bool is_open(const ItemRecord& item) {
  const ItemState state = state_of(item);
  return state != ItemState::done && state != ItemState::skipped;
}

// Who has probably removed the job's directory: as a rule, whoever made it.
std::string who_removed(const JobRecord& record) {
  return record.directory_was_there
             ? "another\nprogram had made the directory (a plugin that is listed before "
               "nodestage in plugstack.conf, or a Prolog\nscript), and probably removed it, too."
             : "probably\nanother plugin is listed before nodestage in plugstack.conf, or a "
               "script cleans up too early.";
}

// Copies them to DIR: of a job of several nodes, those of all.
std::string recover_command(const JobRecord& record) {
  return "nodestage recover " + run_name(record.key()) + " DIR " +
         (record.begin.node_count > 1 ? "--all-nodes" : "--node=" + printable(record.begin.node));
}

// Without the advice below it.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

std::uint64_t retry_delay_s(std::uint32_t tries, std::uint64_t first, std::uint64_t most) {
  std::uint64_t delay = std::min(first, most);
  for (std::uint32_t i = 1; i < tries && delay < most; ++i) delay = std::min(2 * delay, most);
  return delay;
}

HoldTimes hold_times(const HoldRecord& hold, const Config::Hold& settings) {
  const std::uint64_t notice_s = std::min(settings.warn_days, settings.days) * k_day_s;
  const std::uint64_t expire = hold.since + settings.days * k_day_s;
  const std::uint64_t warned_end = hold.warned_at == 0 ? 0 : hold.warned_at + notice_s;
  return {expire - notice_s, std::max(expire, warned_end)};
}

void mend_times(HoldRecord& hold, const Config::Hold& settings, std::uint64_t now) {
  if (now < k_clock_floor) return;
  if (hold.since < k_clock_floor) hold.since = now;
  hold.since = std::min(hold.since, now);
  if (hold.warned_at > now) hold.warned_at = 0;
  if (hold.retry_at != 0) hold.retry_at = std::min(hold.retry_at, now + settings.retry_most_s);
}

bool can_try_again(const WorkerStatus& status) {
  if (status.phase != WorkerPhase::failed || status.items.empty()) return true;
  return std::any_of(status.items.begin(), status.items.end(), [](const ItemRecord& item) {
    return is_open(item) && (item.flags & k_item_final) == 0;
  });
}

std::uint64_t delivered_items(const WorkerStatus& status) {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < std::min<std::size_t>(status.items.size(), 64); ++i)
    if (state_of(status.items[i]) == ItemState::done) bits |= 1ULL << i;
  return bits;
}

bool waits_for_user(const WorkerStatus& status) {
  return status.phase == WorkerPhase::failed && !status.items.empty() &&
         std::none_of(status.items.begin(), status.items.end(), [](const ItemRecord& item) {
           return is_open(item) && (item.flags & k_item_users) == 0;
         });
}

std::vector<std::string> reasons_of(const WorkerStatus& status, const std::string& cause) {
  std::vector<std::string> reasons;
  if (status.phase != WorkerPhase::failed || status.items.empty())
    reasons.push_back(shortened(first_line(cause), k_reason_width));
  const std::vector<std::string> lines = delivery_lines(status);
  for (std::size_t i = 0; i < status.items.size(); ++i) {
    if (!is_open(status.items[i])) continue;
    if (reasons.size() == k_most_reasons) {
      reasons.emplace_back("(and more)");
      break;
    }
    reasons.push_back(printable(shortened(lines[i], k_reason_width)));
  }
  return reasons;
}

std::string run_name(const JobKey& key) {
  const std::string job = std::to_string(key.job);
  return key.restart == 0 ? job : job + "." + std::to_string(key.restart);
}

std::string recovered_to(const JobRecord& record, const std::string& directory) {
  return record.begin.node_count > 1 ? directory + "/" + record.begin.node : directory;
}

bool can_be_switched_off(const JobRecord& record) {
  return (record.begin.slurm_ways & k_powers_down) != 0;
}

std::string held_notice(const JobRecord& record, const Config::Hold& settings) {
  const HoldTimes times = hold_times(record.hold, settings);
  const std::string node = printable(record.begin.node);
  const std::string command = "nodestage recover " + run_name(record.key()) + " DIR";
  std::string text = title(record) + "These results of the job could not be delivered:\n";
  for (const std::string& reason : record.hold.reasons) text += "    " + reason + "\n";
  text += "\nThey are kept on " + node + " until " + human_date(times.expire) +
          ". Then they are removed.\n";
  if (record.hold.warned_at != 0) text += "THIS IS SOON.\n";
  if (can_be_switched_off(record))
    text += "THEY CAN BE LOST EARLIER: this site switches nodes off that are idle. If " + node +
            " is a node of a cloud,\nit loses what it keeps then. Copy them soon.\n";
  text +=
      record.hold.retry_at == 0
          ? "No further try is made, because it could not succeed.\n"
          : "Delivery is tried again from time to time. Once the cause is removed, you need not "
            "do anything:\nwhen the results are delivered, this file will say so.\n";
  text += "To copy them to a directory DIR that you can write to, run this on a login node:\n    " +
          recover_command(record) + "\nor\n    srun -w " + node + " -N1 -n1 " + command +
          "\nor this on " + node + " itself:\n    " + command + "\n";
  if (record.begin.node_count > 1)
    text +=
        "What a node of the job keeps is copied to DIR/NODE: the first command copies that of all "
        "of them, the others\nthat of " +
        node + ".\n";
  return text + updated();
}

std::string delivered_notice(const JobRecord& record) {
  return title(record) +
         "All results of the job are delivered now, after earlier tries had failed.\nYou need not "
         "do anything, and " +
         std::string(k_notice_is_over) + "\n" + updated();
}

std::string recovered_notice(const JobRecord& record, const std::string& directory) {
  return title(record) + "The results that had not been delivered were copied to\n    " +
         printable(directory) + "\nand are no longer kept on the node. You " +
         std::string(k_notice_is_over) + "\n" + updated();
}

std::string expired_notice(const JobRecord& record) {
  std::string text = title(record) + "These results had been kept since " +
                     human_date(record.hold.since) + " and have now been removed:\n";
  for (const std::string& reason : record.hold.reasons) text += "    " + reason + "\n";
  return text + updated();
}

std::string lost_notice(const JobRecord& record, Loss loss) {
  std::string text = title(record) + "These results of the job could not be delivered:\n";
  for (const std::string& reason : record.hold.reasons) text += "    " + reason + "\n";
  text +=
      loss == Loss::mount
          ? "\nThey are lost: this site mounts the job's directory and removes it when the job "
            "has ended, so nodestage\ncould not keep them. Your administrators know more "
            "(stageout.unkept in nodestaged.toml).\n"
          : "\nThey are lost: another program of this site removed the directory before the end "
            "of the job was\nreported to nodestage. It was last seen on " +
                human_date(last_seen_ms(record) / 1000) +
                ". Show this to your administrators: " + who_removed(record) +
                "\n`nodestage doctor` on the node looks for both.\n";
  return text + updated();
}

std::string push_failed_notice(const JobRecord& record, const std::string& cause) {
  return title(record) +
         "The job runs, and results of it could not be delivered meanwhile (`every` of "
         "--stage-out, "
         "or nodestage push):\n    " +
         printable(shortened(first_line(cause), k_reason_width)) +
         "\n\nThey are still in the job's directory, and are tried again at the next interval and "
         "at the end of the job.\nIf the cause is a full disk or quota, make room; if it is a "
         "permission, change it.\nWhen a delivery succeeds, this file will say so.\n" +
         updated();
}

std::string pushed_again_notice(const JobRecord& record) {
  return title(record) +
         "Results of the running job are delivered again, after earlier tries had failed.\nYou "
         "need not do anything, and " +
         std::string(k_notice_is_over) + "\n" + updated();
}

std::string missing_notice(const JobRecord& record, const WorkerStatus& status) {
  std::string lines;
  for (const ItemRecord& item : status.items) {
    if ((item.flags & k_item_missing) != 0)
      lines += "    " + printable(shortened(field_text(item.note), k_reason_width)) + "\n";
  }
  if (lines.empty()) return "";
  return title(record) + "These sources of --stage-out " + std::string(k_notice_of_missing) +
         ":\n" + lines +
         "\nThe job's directory is removed. Is a name misspelled, did the job end before it wrote "
         "them, or did it\nwrite them elsewhere? Results are taken from $SLURM_TMPDIR alone: "
         "`cd $SLURM_TMPDIR` in the job\nbefore your program starts. If a source need not be "
         "there, add the key `optional` after it.\n" +
         updated();
}

std::string outputs_refusal(const std::vector<HeldTree>& held, const std::string& node,
                            const Config::Hold& settings) {
  std::uint64_t bytes = 0;
  std::uint64_t inodes = 0;
  std::string jobs;
  const HeldTree* unmeasured = nullptr;
  for (const HeldTree& tree : held) {
    bytes += std::min(tree.bytes, k_largest / (held.size() + 1));
    inodes += std::min(tree.inodes, k_largest / (held.size() + 1));
    if (jobs.size() <= k_jobs_width) jobs += (jobs.empty() ? "" : ", ") + run_name(tree.key);
    if (tree.is_unmeasurable) unmeasured = &tree;
  }
  std::string much;
  if (settings.max_bytes != 0 && bytes > settings.max_bytes) {
    much =
        human_bytes(bytes) +
        " of your earlier results that could not be delivered are kept there, and the limit is " +
        human_bytes(settings.max_bytes);
  } else if (settings.max_inodes != 0 && inodes > settings.max_inodes) {
    much = human_count(inodes) +
           " files and directories of your earlier results that could not be delivered are kept "
           "there, and the limit is " +
           human_count(settings.max_inodes);
  } else if ((settings.max_bytes != 0 || settings.max_inodes != 0) && unmeasured != nullptr) {
    much =
        "how much of your earlier results that could not be delivered is kept there is not known "
        "(those of job " +
        run_name(unmeasured->key) +
        " could not be measured in time: your process that measures was killed or is slow), and "
        "the limit is " +
        (settings.max_bytes != 0 ? human_bytes(settings.max_bytes)
                                 : human_count(settings.max_inodes) + " files");
  } else if (settings.max_jobs != 0 && held.size() >= settings.max_jobs) {
    much = "results of " + human_count(held.size()) +
           " of your earlier jobs that could not be delivered are kept there, and the limit is " +
           human_count(settings.max_jobs);
  }
  if (much.empty()) return "";
  const std::string where = printable(node);
  return "--stage-out is refused on " + where + ": " + much + " (held: job " +
         shortened(jobs, k_jobs_width) + ").\nRecover them and submit again: `srun -w " + where +
         " -N1 -n1 nodestage held` lists them, `nodestage recover JOBID DIR --node=" + where +
         "` copies one to a directory. Jobs without --stage-out run, and --exclude=" + where +
         " avoids the node.";
}

std::string unkept_refusal(const std::string& path, const std::string& node) {
  return "--stage-out is refused on " + printable(node) + ": the job's directory " +
         printable(path) +
         " is a mount of the site's, so results that could not be delivered could not be kept.\n"
         "Copy them at the end of the job script, or ask your administrators (stageout.unkept in "
         "nodestaged.toml).";
}

namespace {

bool has_failed(const ItemRecord& item) { return state_of(item) == ItemState::failed; }

bool is_first_node(const JobRecord& record) {
  return record.begin.node_index == 0 || record.begin.node_count == 1;
}

bool is_reported(const ItemRecord& item, const JobRecord& record) {
  return state_of(item) != ItemState::skipped || is_first_node(record);
}

// Those of result_lines(), with the cause where no output has one.
std::vector<std::string> failed_lines(const JobRecord& record, const WorkerStatus& status,
                                      const std::string& cause) {
  std::vector<std::string> lines = result_lines(record, status);
  if (std::none_of(status.items.begin(), status.items.end(), has_failed))
    lines.push_back("results could not be delivered: " + printable(first_line(cause)));
  return lines;
}

}  // namespace

std::vector<std::string> result_lines(const JobRecord& record, const WorkerStatus& status) {
  std::vector<std::string> lines;
  if (record.images_served && record.may_have_run && !record.image_fault.empty())
    lines.push_back("mounted images could not be read: " + record.image_fault);
  if (record.push_has_failed)
    lines.emplace_back("deliveries while the job ran had failed; this is what its end has done:");
  const std::vector<std::string> all = delivery_lines(status);
  for (std::size_t i = 0; i < all.size(); ++i)
    if (is_reported(status.items[i], record)) lines.push_back(all[i]);
  return lines;
}

std::vector<std::string> late_lines(const JobRecord& record, const WorkerStatus& staged,
                                    const std::string& fault) {
  WorkerStatus late;
  for (ItemRecord item : staged.items) {
    const bool was_open = is_unfinished(item);
    const bool is_late = was_open || (has_failed(item) && item.ended_ms > record.times.run);
    if (record.times.run == 0 || (item.flags & k_item_async) == 0 || !is_late) continue;
    if (was_open) {
      item.state = static_cast<std::uint32_t>(ItemState::failed);
      set_field(item.note, fault.empty() ? "it was not complete when the job ended" : fault);
    }
    late.items.push_back(item);
  }
  return user_summary(late);
}

std::vector<std::string> held_lines(const JobRecord& record, const WorkerStatus& status,
                                    const std::string& cause) {
  std::vector<std::string> lines = failed_lines(record, status, cause);
  lines.push_back(std::string(k_results_kept) + ": `" + recover_command(record) +
                  "` copies it to " + printable(recovered_to(record, "DIR")));
  return lines;
}

std::vector<std::string> released_lines(const WorkerStatus& status, const std::string& parting) {
  if (!parting.empty()) return {printable(parting)};
  std::vector<std::string> lines;
  const std::vector<std::string> all = delivery_lines(status);
  for (std::size_t i = 0; i < all.size(); ++i)
    if (state_of(status.items[i]) == ItemState::done) lines.push_back(all[i]);
  lines.emplace_back(k_kept_delivered);
  return lines;
}

std::vector<std::string> lost_lines(const JobRecord& record, const WorkerStatus& status,
                                    const std::string& cause, Loss loss) {
  std::vector<std::string> lines = failed_lines(record, status, cause);
  lines.push_back(loss == Loss::mount ? std::string(k_results_lost_with_site)
                                      : std::string(k_results_lost) + "; tell your site's support");
  return lines;
}

}  // namespace nodestage

#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "cli/base/conversation.hpp"
#include "cli/base/listing.hpp"
#include "cli/base/verbs.hpp"
#include "cli/process/programs.hpp"
#include "cli/slurm/node_jobs.hpp"
#include "cli/slurm/slurm_job.hpp"
#include "common/build_info.hpp"
#include "common/os/child.hpp"
#include "common/talk/task_voice.hpp"
#include "common/text/human.hpp"

namespace nodestage {
namespace {

// Whether it is on a file system of this host's own memory or disks, and of no network. Recovery
// can have been asked for on another host.
bool is_of_this_host(const std::string& path) {
  constexpr long k_types[] = {TMPFS_MAGIC, EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC,
                              OVERLAYFS_SUPER_MAGIC};
  struct statfs info {};
  return ::statfs(path.c_str(), &info) == 0 &&
         std::find(std::begin(k_types), std::end(k_types), info.f_type) != std::end(k_types);
}

std::string next_try_text(const HeldRow& row) {
  if (row.next_try == 0) return "no further try can deliver them";
  if (row.next_try <= static_cast<std::uint64_t>(std::time(nullptr)))
    return "being tried again now";
  return "next try " + human_date(row.next_try);
}

std::string size_text(const HeldRow& row) {
  if (row.is_measured == 0) return "size not known";
  return human_bytes(row.bytes) + " in " + counted(row.inodes, "file", "files and directories");
}

// "12" or "12.1"
std::string run_text(const HeldRow& row) {
  return to_text(JobId{row.job, row.restart == 0 ? k_no_number : row.restart});
}

void print(const HeldRow& row) {
  std::string job = run_text(row);
  if (::geteuid() == 0) job += " of uid " + std::to_string(row.uid);
  std::printf("job %s: on %s since %s, %s, kept until %s, %s\n", job.c_str(),
              printable(row.node).c_str(), human_date(row.since).c_str(), size_text(row).c_str(),
              human_date(row.expires).c_str(), next_try_text(row).c_str());
  for (const std::string& reason : row.reasons) std::printf("  %s\n", printable(reason).c_str());
  std::printf("  in %s\n", printable(row.path).c_str());
}

int show_here(const HeldArguments& arguments) {
  const auto rows = ask_for_rows<HeldRow>(arguments.socket, HeldQuery{});
  if (!rows)
    return no_answer(rows.error(), "Ask the nodes: nodestage held --all-nodes, or --node=NODE.");
  if (arguments.nodes.is_pieces) {
    print_pieces({rows->begin(), rows->end()});
    return 0;
  }
  for (const HeldRow& row : *rows) print(row);
  if (rows->empty()) std::printf("this node holds no results of yours\n");
  return 0;
}

std::vector<std::string> cells_of(const std::string& node, const HeldRow& row) {
  // The last column: a terminal wraps it, and nothing is cut.
  std::string why;
  for (const std::string& reason : row.reasons)
    why += (why.empty() ? "" : "; ") + printable(reason);
  std::vector<std::string> cells = {
      printable(node),         run_text(row),
      human_date(row.since),   row.is_measured == 0 ? "-" : human_bytes(row.bytes),
      human_date(row.expires), row.next_try == 0 ? "none" : human_date(row.next_try),
      why.empty() ? "-" : why};
  if (::geteuid() == 0) {
    const auto account = account_of(row.uid);
    cells.insert(cells.begin() + 2, account ? account->name : std::to_string(row.uid));
  }
  return cells;
}

int show_elsewhere(const HeldArguments& arguments) {
  const GatheredRows gathered =
      gather_rows(arguments.nodes, {"nodestage", "held", "--pieces"}, arguments.socket);
  if (gathered.code != 0) return gathered.code;
  std::vector<std::string> head = {"NODE", "JOB", "SINCE", "SIZE", "KEPT UNTIL", "NEXT TRY", "WHY"};
  if (::geteuid() == 0) head.insert(head.begin() + 2, "USER");
  const std::size_t columns = head.size();
  Grid grid(std::move(head), columns);
  const auto rows = gathered.all<HeldRow>();
  for (const auto& [node, row] : rows) grid.add(cells_of(node, row));
  if (rows.empty()) {
    std::printf("the nodes that answered hold no results%s\n", ::geteuid() == 0 ? "" : " of yours");
    return 0;
  }
  std::printf("%s`nodestage recover JOB DIR --node=NODE` copies them to DIR\n",
              grid.text().c_str());
  return 0;
}

}  // namespace

int show_held(const HeldArguments& arguments) {
  return arguments.nodes.is_elsewhere() ? show_elsewhere(arguments) : show_here(arguments);
}

namespace {

constexpr int k_nothing_held = 2;

// By text only: links can differ on the node.
std::string absolute(const std::string& path) {
  if (path.starts_with('/')) return path;
  char here[PATH_MAX];
  return ::getcwd(here, sizeof here) == nullptr ? "" : std::string(here) + "/" + path;
}

// The partition to ask for; empty: the default one, or a step of a job that runs.
std::string partition_of(const std::string& node) {
  for (const char* name : {"SLURM_JOB_ID", "SLURM_PARTITION"})
    if (std::getenv(name) != nullptr) return {};
  const std::vector<SlurmNode> known = list_nodes(Partitions::usable);
  const SlurmNode* found = find_node(known, node);
  return found == nullptr || found->is_in_default ? "" : found->partition;
}

// One task on each of them.
int become_srun(const RecoverArguments& arguments, const JobId& id, const std::string& directory,
                const std::vector<std::string>& nodes) {
  const std::string count = std::to_string(nodes.size());
  std::vector<std::string> words = {"srun",
                                    "-w",
                                    joined(nodes, ","),
                                    "-N" + count,
                                    "-n" + count,
                                    "--ntasks-per-node=1",
                                    "--kill-on-bad-exit=0",
                                    "--input=none",  // that of a loop around this is not its own
                                    "--mpi=none",
                                    "--stage-wait=none"};
  if (const std::string partition = partition_of(nodes.front()); !partition.empty())
    words.push_back("--partition=" + partition);
  words.insert(words.end(), {"nodestage", "recover", to_text(id), directory});
  if (arguments.socket != k_socket_path) words.push_back("--socket=" + arguments.socket);
  const auto argv = exec_texts(words);
  ::execvp(argv[0], argv.data());
  return fault(std::string("srun cannot be started: ") + std::strerror(errno),
               "--node needs Slurm's srun; on the node itself, omit --node.");
}

// The nodes that hold results of the job, of those that answer.
std::vector<std::string> nodes_that_hold(const JobId& id, const GatheredRows& gathered) {
  std::vector<std::string> nodes;
  for (const auto& [node, row] : gathered.all<HeldRow>()) {
    const bool is_meant =
        row.job == id.job && (id.restart == k_no_number || row.restart == id.restart);
    if (is_meant && (nodes.empty() || nodes.back() != node)) nodes.push_back(node);
  }
  return nodes;
}

int recover_elsewhere(const RecoverArguments& arguments, const JobId& id,
                      const std::string& directory) {
  if (!arguments.nodes.is_all) {
    const auto nodes = expand_nodes(arguments.nodes.nodes);
    if (!nodes) return fault(nodes.error().text(), "--node needs Slurm's commands.");
    return become_srun(arguments, id, directory, *nodes);
  }
  const GatheredRows gathered =
      gather_rows(arguments.nodes, {"nodestage", "held", "--pieces"}, arguments.socket);
  if (gathered.code != 0) return gathered.code;
  const auto nodes = nodes_that_hold(id, gathered);
  if (!nodes.empty()) return become_srun(arguments, id, directory, nodes);
  fault("the nodes that answered hold no results of a job " + arguments.job + " of yours",
        "`nodestage held --all-nodes` lists what they hold.");
  return k_nothing_held;
}

int nothing_held(const RecoverArguments& arguments) {
  fault("this node holds no results of a job " + arguments.job + " of yours",
        "The file nodestage-JOBID.txt beside the job's output names the node: give it with "
        "--node=NODE, or let --all-nodes look for it.\n`nodestage held` lists what this node "
        "holds.");
  return k_nothing_held;
}

int refused(const RecoverArguments& arguments, const Refused& answer) {
  if (answer.reason == RefusalReason::not_permitted || answer.reason == RefusalReason::unknown_job)
    return nothing_held(arguments);
  return fault(answer.what, "The results of job " + arguments.job + " stay held.");
}

// The daemon reports once a second, and does not know since when its caller waits.
Progress since(Progress progress, Deadline begun) {
  const auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begun);
  progress.elapsed_ms = static_cast<std::uint64_t>(passed.count());
  return progress;
}

}  // namespace

int recover(const RecoverArguments& arguments) {
  if (arguments.directory.empty())
    return wrong_usage("DIR is empty: is a variable in it not set?",
                       "`nodestage recover --help` shows how it is used.");
  const auto id = find_job_id(arguments.job);
  if (!id && id.error().code != ENOMSG)
    return fault(id.error().text(), "`nodestage held --all-nodes` lists what nodes hold.");
  if (!id)
    return wrong_usage(id.error().text(),
                       "JOBID is a number; for a task of an array, JOBID_TASK; of a run that was "
                       "requeued, JOBID.RESTART.");
  const Recover ask{id->job, id->restart, absolute(arguments.directory)};
  if (ask.directory.empty())
    return fault("the current directory does not exist", "Give an absolute DIR.");
  if (arguments.nodes.is_elsewhere()) return recover_elsewhere(arguments, *id, ask.directory);
  TaskVoice voice(Speech::aloud, STDERR_FILENO, obeys_escapes(STDERR_FILENO), node_name(),
                  k_line_interval);
  const auto begun = Clock::now();
  const auto code =
      exchange(arguments.socket, ask, [&](const Message& message) -> std::optional<int> {
        if (const auto* progress = std::get_if<Progress>(&message)) {
          if (progress->phase == ProgressPhase::staging) voice.progress(since(*progress, begun));
          return {};
        }
        voice.clear();
        if (const auto* answer = std::get_if<Refused>(&message)) return refused(arguments, *answer);
        const auto* recovered = std::get_if<Recovered>(&message);
        if (recovered == nullptr) return daemon_fault("nodestaged gave an unexpected answer");
        if (std::getenv("SLURM_PROCID") != nullptr && is_of_this_host(ask.directory))
          std::printf("DIR is %s on %s, which other hosts may not have\n",
                      printable(ask.directory).c_str(), printable(node_name()).c_str());
        for (const std::string& line : recovered->lines)
          std::printf("%s\n", printable(line).c_str());
        std::printf("%s no longer holds results of job %s\n", printable(node_name()).c_str(),
                    arguments.job.c_str());
        return 0;
      });
  if (code) return *code;
  return no_answer(code.error(),
                   "Name the node that holds the results, or look for it on all: nodestage "
                   "recover " +
                       arguments.job +
                       " DIR --node=NODE, or --all-nodes. The end of the job's output says "
                       "which, and `nodestage held --all-nodes` lists all.");
}

}  // namespace nodestage

#include "plugin/left_writers.hpp"

#include <fcntl.h>
#include <fts.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <thread>
#include <utility>

#include "common/os/child.hpp"
#include "common/os/file.hpp"
#include "common/os/mounts.hpp"
#include "common/text/parsing.hpp"

namespace nodestage {
namespace {

// A killed process has its descriptors for a moment.
constexpr int k_looks = 20;
constexpr int k_looks_at_hidden = 4;
constexpr std::chrono::milliseconds k_pause{50};
constexpr std::chrono::seconds k_limit{5};
constexpr std::size_t k_most = 16 << 20;  // of a file of /proc

// The numbers after that key, which begins a line of a file of /proc that is not the first.
std::string numbers_in(const std::string& file, const std::string& key) {
  const auto text = read_file(AT_FDCWD, file, k_most);
  const std::size_t at = text ? text->find("\n" + key) : std::string::npos;
  if (at == std::string::npos) return {};
  const std::size_t begin = at + 1 + key.size();
  return text->substr(begin, text->find('\n', begin) - begin);
}

// Compares the real or the effective one: /proc shows processes that cannot be traced as root's.
bool is_of(const std::string& process, std::uint32_t uid) {
  const std::string numbers = numbers_in(process + "/status", "Uid:\t");
  std::string_view ids = numbers;
  const std::string wanted = std::to_string(uid);
  return take_field(ids, '\t') == wanted || take_field(ids, '\t') == wanted;
}

int parent_of(const std::string& process) {
  return parse_number<int>(numbers_in(process + "/status", "PPid:\t")).value_or(0);
}

// Whether the program of a process is root's, and has that name. A user's program of that name can
// be on a file system that does not answer: it is not asked.
bool runs_roots(const std::string& process, std::string_view name) {
  if (!link_text(AT_FDCWD, process + "/exe").ends_with(name)) return false;
  struct statx info {};
  return ::statx(AT_FDCWD, (process + "/exe").c_str(), AT_STATX_DONT_SYNC, STATX_UID, &info) == 0 &&
         info.stx_uid == 0;
}

template <typename See>
void for_each_process(See see) {
  auto processes = DirectoryStream::at(AT_FDCWD, "/proc");
  while (const auto name = processes.next()) {
    std::string_view text = *name;
    const auto pid = take_number<int>(text);
    if (pid && text.empty()) see(*pid, "/proc/" + std::string(*name));
  }
}

// What can be a worker that has no cgroup of its own. A worker has children for what may not
// return.
bool runs_as_worker(const std::string& process) {
  return runs_roots(process, "/nodestage-worker") || runs_roots(process, "/nodestaged");
}

// The tree, and what in it is open.
struct KeptTree {
  std::string below;  // its path, and a slash
  dev_t device = 0;
  std::string disk;           // its file system, as in mountinfo
  std::string below_on_disk;  // its path in that, and a slash
  std::string mounts;         // the name space of mounts of this process
};

using Inodes = std::set<std::uint64_t>;

// What a process has open, or mapped, on the file system of the tree.
struct Open {
  bool is_below = false;  // by the path that the kernel shows
  Inodes own;             // of directories, and of files with one name
  Inodes inodes;          // of other files, which can have names elsewhere and that it can write to
  std::set<std::string> hidden;  // what has open files in it that nobody can look at
};

// Whether it is open for writing, by its fdinfo: "flags:", in octal.
bool is_to_write(const std::string& fdinfo) {
  const std::string flags = numbers_in(fdinfo, "flags:\t");
  return !flags.empty() && ((flags.back() - '0') & O_ACCMODE) != O_RDONLY;
}

// A file can have names outside of the tree, too, and its readers there are no danger.
void add_link(const KeptTree& tree, const std::string& link, const std::string& fdinfo,
              Open& open) {
  if ((link_text(AT_FDCWD, link) + "/").starts_with(tree.below)) open.is_below = true;
  struct statx info {};
  if (::statx(AT_FDCWD, link.c_str(), AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT,
              STATX_INO | STATX_TYPE | STATX_NLINK, &info) != 0 ||
      ::makedev(info.stx_dev_major, info.stx_dev_minor) != tree.device)
    return;
  if (S_ISDIR(info.stx_mode) || info.stx_nlink == 1)
    open.own.insert(info.stx_ino);
  else if (is_to_write(fdinfo))
    open.inodes.insert(info.stx_ino);
}

// proc(5): "begin-end rights offset major:minor inode   path"
void add_maps(const KeptTree& tree, const std::string& process, Open& open) {
  const auto maps = read_file(AT_FDCWD, process + "/maps", k_most);
  if (!maps) return;
  if (maps->find(" " + tree.below) != std::string::npos) open.is_below = true;
  std::string_view rest = *maps;
  while (!rest.empty()) {
    std::string_view line = take_field(rest, '\n');
    take_field(line, ' ');
    const bool is_shared = take_field(line, ' ').ends_with('s');
    take_field(line, ' ');
    std::string_view device = take_field(line, ' ');
    unsigned major = 0;
    unsigned minor = 0;
    const std::string_view first = take_field(device, ':');
    std::from_chars(first.data(), first.data() + first.size(), major, 16);
    std::from_chars(device.data(), device.data() + device.size(), minor, 16);
    const auto inode = take_number<std::uint64_t>(line);
    if (is_shared && inode && ::makedev(major, minor) == tree.device) open.inodes.insert(*inode);
  }
}

// Messages that no process has received can have descriptors in them (unix(7)), and io_uring can
// have files that it alone has open.
void add_hidden(const std::string& process, std::string_view number, Open& open) {
  const std::string target = link_text(AT_FDCWD, (process + "/fd/").append(number));
  const bool is_socket = target.starts_with("socket:");
  if (!is_socket && target != "anon_inode:[io_uring]") return;
  const std::string file = (process + "/fdinfo/").append(number);
  const std::string count = numbers_in(file, is_socket ? "scm_fds: " : "UserFiles:\t");
  if (parse_number<std::uint64_t>(count).value_or(0) != 0)
    open.hidden.insert(process + " " + target);
}

// A user can mount the tree elsewhere, in a name space of their own, and then needs nothing open.
bool has_mounted(const std::string& process, const KeptTree& tree) {
  if (tree.below_on_disk.empty() || link_text(AT_FDCWD, process + "/ns/mnt") == tree.mounts)
    return false;
  const auto text = read_file(AT_FDCWD, process + "/mountinfo", k_most);
  std::string_view rest = text ? std::string_view(*text) : std::string_view();
  while (!rest.empty()) {
    const auto mount = mount_in(take_field(rest, '\n'));
    if (mount && mount->disk == tree.disk &&
        (unescaped(mount->root) + "/").starts_with(tree.below_on_disk))
      return true;
  }
  return false;
}

// By its path also what is open for reading alone: its owner can open that again.
Open opened_by(const std::string& process, const KeptTree& tree) {
  Open open;
  for (const char* const link : {"/cwd", "/root", "/exe"}) add_link(tree, process + link, "", open);
  auto descriptors = DirectoryStream::at(AT_FDCWD, process + "/fd");
  while (const auto number = descriptors.next()) {
    const std::string fdinfo = (process + "/fdinfo/").append(*number);
    add_link(tree, (process + "/fd/").append(*number), fdinfo, open);
    add_hidden(process, *number, open);
  }
  add_maps(tree, process, open);
  open.is_below = open.is_below || has_mounted(process, tree);
  return open;
}

// Returns which of these inodes are in the tree, whatever their paths are where they are open: a
// user has other paths in a mount name space of their own.
Inodes inodes_in(const KeptTree& tree, const Inodes& wanted) {
  Inodes found;
  std::string top = tree.below;
  char* const tops[] = {top.data(), nullptr};
  FTS* const walk = ::fts_open(tops, FTS_PHYSICAL | FTS_XDEV, nullptr);
  if (walk == nullptr) return found;
  while (const FTSENT* const entry = ::fts_read(walk)) {
    if (entry->fts_info == FTS_DP || entry->fts_info == FTS_NS) continue;
    if (wanted.contains(entry->fts_statp->st_ino)) found.insert(entry->fts_statp->st_ino);
  }
  ::fts_close(walk);
  return found;
}

// The descriptor keeps the number from meaning another process by then.
struct Suspect {
  int pid;
  Fd process;
  std::optional<int> parent = {};  // of what can be a worker
  Open open = {};
};

// Workers have no cgroup where there are none for them, and before they have entered it.
void spare_workers(std::vector<Suspect>& suspects, const AskWorkers& ask_workers) {
  const auto may_be_worker = [](const Suspect& suspect) { return suspect.parent.has_value(); };
  if (std::none_of(suspects.begin(), suspects.end(), may_be_worker)) return;
  const auto workers = ask_workers();
  const auto is_worker = [&workers](int pid) {
    return !workers ||
           std::find(workers->begin(), workers->end(), std::to_string(pid)) != workers->end();
  };
  std::erase_if(suspects, [&](const Suspect& suspect) {
    return may_be_worker(suspect) && (is_worker(suspect.pid) || is_worker(*suspect.parent));
  });
}

// What has hidden files, and in how many looks in a row. A message is received at once as a rule.
using Hiding = std::map<std::string, int>;

using CgroupMounts = std::map<std::string, CgroupMount>;

// What is no proof is not held against another job of the user: anybody may send descriptors to a
// socket of its, and the ended job may have made links to its files. A process of no job is not
// known as such where Slurm makes no cgroups.
void spare_other_jobs(Open& open, const std::string& cgroup, const EndedJob& job) {
  const bool is_others =
      !cgroup.empty() && cgroup != std::string(k_job_cgroup) + std::to_string(job.job);
  if (is_others) open.inodes.clear();
  if (is_others || (cgroup.empty() && !job.has_cgroups)) open.hidden.clear();
}

// What each has open is looked at as it is found: what has ended until then has passed it on.
// nodestage's own workers are known by the cgroup that the daemon has put them into and that none
// of their users can enter. Their program is no proof, nor is the daemon's cgroup: a user can start
// it, with a library of the user's in it, and where a daemon was started by hand, jobs can be in
// its cgroup.
std::vector<Suspect> find_suspects(const KeptTree& tree, const EndedJob& job,
                                   const CgroupMounts& mounts) {
  std::vector<Suspect> suspects;
  for_each_process([&](int pid, const std::string& process) {
    Suspect suspect{pid, Fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)))};
    if (!suspect.process || !is_of(process, job.uid)) return;
    const auto text = read_file(AT_FDCWD, process + "/cgroup", k_most);
    const std::string cgroups = text ? *text : "";
    if (!cgroup_of_root(mounts, cgroups, k_worker_cgroup).empty()) return;
    if (runs_as_worker(process)) suspect.parent = parent_of(process);
    suspect.open = opened_by(process, tree);
    spare_other_jobs(suspect.open, cgroup_of_root(mounts, cgroups, k_job_cgroup), job);
    suspects.push_back(std::move(suspect));
  });
  return suspects;
}

KilledWriters kill_once(const KeptTree& tree, const EndedJob& job, const CgroupMounts& mounts,
                        const AskWorkers& ask_workers, Hiding& hiding) {
  std::vector<Suspect> suspects = find_suspects(tree, job, mounts);
  spare_workers(suspects, ask_workers);
  Inodes wanted;
  Hiding hides;
  for (const Suspect& suspect : suspects) {
    wanted.insert(suspect.open.inodes.begin(), suspect.open.inodes.end());
    wanted.insert(suspect.open.own.begin(), suspect.open.own.end());
    for (const std::string& name : suspect.open.hidden) hides[name] = hiding[name] + 1;
  }
  hiding = std::move(hides);
  const Inodes inside = wanted.empty() ? Inodes() : inodes_in(tree, wanted);
  KilledWriters killed;
  for (const Suspect& suspect : suspects) {
    const Open& open = suspect.open;
    const bool is_writer =
        open.is_below || std::any_of(inside.begin(), inside.end(), [&](std::uint64_t one) {
          return open.inodes.contains(one) || open.own.contains(one);
        });
    const bool is_hiding =
        std::any_of(open.hidden.begin(), open.hidden.end(),
                    [&](const std::string& name) { return hiding[name] >= k_looks_at_hidden; });
    if ((is_writer || is_hiding) &&
        ::syscall(SYS_pidfd_send_signal, suspect.process.get(), SIGKILL, nullptr, 0) == 0)
      killed.emplace(suspect.pid, is_writer ? Proof::open : Proof::hidden);
  }
  return killed;
}

// The path of the tree in its file system: mounts in other name spaces show that.
void find_on_disk(KeptTree& tree, int directory_fd) {
  const auto text = read_mountinfo();
  const auto mount = text ? find_mount(*text, mount_of(directory_fd)) : std::nullopt;
  if (!mount) return;
  const std::string point = unescaped(mount->point);
  const std::string root = unescaped(mount->root);
  if (!tree.below.starts_with(point)) return;
  tree.disk = mount->disk;
  tree.below_on_disk =
      (root == "/" ? "" : root) + tree.below.substr(point == "/" ? 0 : point.size());
}

KilledWriters kill_all(const std::string& directory, const EndedJob& job,
                       const AskWorkers& ask_workers) {
  KilledWriters killed;
  const auto opened = open_at(AT_FDCWD, directory, O_PATH | O_DIRECTORY);
  struct stat info {};
  if (job.uid == 0 || !opened || ::fstat(opened->get(), &info) != 0) return killed;
  KeptTree tree{
      path_of(opened->get()) + "/", info.st_dev, {}, {}, link_text(AT_FDCWD, "/proc/self/ns/mnt")};
  find_on_disk(tree, opened->get());
  const auto mounts = cgroup_mounts("/proc");
  Hiding hiding;
  for (int i = 0; i < k_looks; ++i) {
    KilledWriters found =
        kill_once(tree, job, mounts ? *mounts : CgroupMounts(), ask_workers, hiding);
    if (found.empty() && hiding.empty()) break;
    killed.merge(found);
    std::this_thread::sleep_for(k_pause);
  }
  return killed;
}

}  // namespace

// Asks apart, since a process can make a reader of its maps wait for its memory.
KilledWriters kill_left_writers(const std::string& directory, const EndedJob& job,
                                const AskWorkers& ask_workers) {
  const auto answer = ask_apart(k_limit, [&] {
    std::string pids;
    for (const auto& [pid, proof] : kill_all(directory, job, ask_workers))
      pids += std::to_string(pid) + (proof == Proof::hidden ? "?" : " ");
    return pids;
  });
  KilledWriters killed;
  std::string_view rest = answer ? std::string_view(*answer) : std::string_view();
  while (const auto pid = take_number<int>(rest)) {
    killed.emplace(*pid, rest.starts_with('?') ? Proof::hidden : Proof::open);
    rest.remove_prefix(1);
  }
  return killed;
}

}  // namespace nodestage

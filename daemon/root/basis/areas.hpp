// Areas: the directories that the daemon owns on the node's disk.
//
//   ROOT/<name>                  the job directory, 0700, the user's   (ROOT/<name> is tmpdir.path)
//   ROOT/.nodestage/             0700, root's
//     status/<job>.<restart>.<task>   what workers report (common/wire/status_file.hpp)
//     status/<job>.<restart>.answer   the daemon's answers to them (common/wire/status_file.hpp)
//     status/<job>.<restart>.delivered   their list of deliveries (k_worker_delivered_fd)
//     status/<job>.<restart>.plan     for the relay worker (common/wire/peer_note.hpp)
//     trash/<uid>.<gid>.<n>           trees that wait for removal
//     hold/<job>.<restart>/           trees whose stage-out failed or continues in the background
//   ROOT/.nodestage-cache/       0711, root's: shared items (common/wire/worker_order.hpp)
//   ROOT/.nodestage-images/      0711, root's; there while a job has images
//     <job>.<restart>/<n>             on which the hooks mount the job's images; empty, root's
//
// All of it is on one file system, so that every move is one rename. What jobs have in memory is on
// another one, memory.path:
//
//   MEMORY/.nodestage-memory/    0711, root's
//     <job>.<restart>/                0700, the user's
//     trash/<uid>.<gid>.<n>           as above
//
// Needs root. No function here
// reads what a user wrote.
#pragma once

#include <fcntl.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/os/file.hpp"
#include "common/result.hpp"
#include "daemon/root/basis/user_locks.hpp"

namespace nodestage {

// How a directory of these is opened: never through a link.
inline constexpr int k_directory = O_RDONLY | O_DIRECTORY | O_NOFOLLOW;

struct JobKey {
  std::uint32_t job = 0;
  std::uint32_t restart = 0;

  auto operator<=>(const JobKey&) const = default;
};
std::string to_text(const JobKey& key);  // "JOB.RESTART"

enum class Medium { disk, memory };
struct TrashEntry {
  std::string name;
  std::uint32_t uid = 0;  // of the tree's owner
  std::uint32_t gid = 0;
  Medium medium = Medium::disk;
};

// Whether a job directory may be a mount. Users can mount something there (FUSE), and a mount that
// does not answer would block the daemon. Only directories that the site makes may be mounts.
enum class Mounts { refuse, enter };

class Areas {
 public:
  // Opens ROOT, which must exist, belong to `owner`, and not be writable by others (unless sticky).
  // Makes what is missing below .nodestage. `owner` is the daemon's own user: root, except in
  // tests.
  static Result<Areas> open(const std::string& root, std::uint32_t owner = 0);

  // Opens MEMORY, which must be a tmpfs, belong to `owner`, and not be writable by others (unless
  // sticky), and makes what is missing below it. Without it, memory_fault() says why. Call it once,
  // before take_new_trash().
  void open_memory(const std::string& path);
  [[nodiscard]] const std::string& memory_fault() const { return memory_fault_; }
  [[nodiscard]] std::string memory_path(const JobKey& key) const {
    return memory_path_ + "/" + to_text(key);
  }
  // Makes the job's directory there, or opens the one that an earlier daemon has made for it.
  Result<Fd> make_in_memory(const JobKey& key, std::uint32_t uid, std::uint32_t gid) const;
  // Renames it away as move_to_trash() does. Succeeds when there is none.
  Status move_memory_to_trash(const JobKey& key);
  // The jobs that have one.
  [[nodiscard]] std::vector<JobKey> jobs_in_memory() const;

  // Makes the directories on which the hooks mount a job's images (image_mounts_name()). They can
  // be there.
  Status make_image_mounts(const JobKey& key, std::size_t count) const;
  [[nodiscard]] std::string image_mount(const JobKey& key, std::size_t index) const;
  // Removes them. Returns false while something is mounted there.
  bool remove_image_mounts(const JobKey& key) const;
  // The jobs that have some.
  [[nodiscard]] std::vector<JobKey> jobs_with_images() const;

  // Makes the job directory `name`. An existing directory of `uid` is used as it is (a restarted
  // daemon, a site's Prolog). One that a daemon may have left unfinished when it died is made
  // again. Anything else is a fault.
  enum class Maker { nodestage, another };
  Result<Maker> make_directory(const std::string& name, std::uint32_t uid, std::uint32_t gid) const;
  // Opens the directory `name` if it exists and belongs to `uid`; never follows a link. Empty while
  // it is missing.
  Result<std::optional<Fd>> open_directory(const std::string& name, std::uint32_t uid,
                                           Mounts mounts = Mounts::refuse) const;

  // Whether the job directory of that name, open at `directory_fd`, has nothing in it; no, if its
  // user holds its lock.
  [[nodiscard]] bool is_empty(const std::string& name, int directory_fd, std::uint32_t uid);

  // Whether the job directory, open at `directory_fd`, is a mount. Mounts cannot be moved.
  [[nodiscard]] bool is_mount(int directory_fd) const;

  Result<Fd> open_status(const JobKey& key, const char* task, int flags) const;
  void remove_status(const JobKey& key) const;
  void remove_status(const JobKey& key, const char* task) const;

  // Whether something is mounted over the directory of that name, below the root.
  [[nodiscard]] bool is_covered(const std::string& name) const;

  // What moves or removes a user's tree fails with EBUSY while that user holds a lock that it needs
  // (user_locks.hpp).

  // Renames a tree away at once, to be removed as that user. Succeeds when `name` is missing.
  Status move_to_trash(const std::string& name, std::uint32_t uid, std::uint32_t gid);
  // Does the same for `name` in any directory of this file system (borrowed).
  Status move_to_trash(int from_fd, const std::string& name, std::uint32_t uid, std::uint32_t gid) {
    return trash(from_fd, name, {"", uid, gid});
  }
  Status move_to_hold(const std::string& name, const JobKey& key, std::uint32_t uid);
  // Exchanges a user's tree in `from_fd`, which is the user's, with that name in `to_fd`, of which
  // `path` is the path.
  Status exchange(int from_fd, const std::string& name, int to_fd, const std::string& path,
                  std::uint32_t uid);
  Result<std::optional<Fd>> open_held(const JobKey& key, std::uint32_t uid) const;
  Status move_held_to_trash(const JobKey& key, std::uint32_t uid, std::uint32_t gid);

  // Returns what has come to the trash since the last call, and at first what an earlier daemon
  // left. The area is listed once: there can be many trees.
  std::vector<TrashEntry> take_new_trash();
  [[nodiscard]] std::size_t trees_in_trash() const;
  [[nodiscard]] bool has_trash_of(std::uint32_t uid) const { return trash_of_.contains(uid); }
  Result<Fd> open_trash(const TrashEntry& entry) const;
  // Removes the emptied directory, or an entry that is not a directory. Succeeds when there is
  // nothing any more.
  Status remove_trash(const TrashEntry& entry);
  // Puts a large file, which takes long to remove, into a directory of its owner's, and that is the
  // entry then. Does nothing to anything else.
  Status wrap_trash(TrashEntry& entry);

  // .nodestage-cache; -1 where it cannot be used, and then why: in ROOT, a user may have made it.
  [[nodiscard]] int cache_fd() const { return cache_.get(); }
  [[nodiscard]] const std::string& cache_fault() const { return cache_fault_; }
  [[nodiscard]] std::string cache_path() const { return root_ + "/.nodestage-cache"; }

  [[nodiscard]] std::string path_of(const std::string& name) const { return root_ + "/" + name; }
  [[nodiscard]] std::string held_path(const JobKey& key) const { return path_of(held_name(key)); }
  static std::string held_name(const JobKey& key);
  static std::string hold_name() { return ".nodestage/hold"; }
  // Below the root, where users reach what is not a job's or a result: nothing that they mount
  // there may stay, since it would keep a tree from being removed.
  static std::vector<std::string> places_of_waste();

 private:
  [[nodiscard]] Result<Fd> image_area() const;
  [[nodiscard]] bool remove_begun(const std::string& name) const;
  [[nodiscard]] std::vector<TrashEntry> list_trash(Medium medium) const;
  [[nodiscard]] int trash_fd(Medium medium) const {
    return medium == Medium::disk ? trash_.get() : memory_trash_.get();
  }
  void add_trash(const TrashEntry& entry);
  [[nodiscard]] std::string new_trash_name(std::uint32_t uid, std::uint32_t gid);
  Status trash(int from_fd, const std::string& from, TrashEntry entry);
  // What does something with `name` in a directory of root's needs the lock of what is there.
  Status on_users_tree(UserLocks::Kind kind, int dir_fd, const std::string& name, std::uint32_t uid,
                       std::vector<int> used, std::function<int()> run);
  Status rename_users_tree(int from_fd, const std::string& from, std::uint32_t uid, int to_fd,
                           const std::string& to);
  [[nodiscard]] std::string path_in(int dir_fd, const std::string& name) const;

  std::string root_;
  std::uint32_t owner_ = 0;
  Fd root_fd_;
  Fd status_;
  Fd trash_;
  Fd hold_;
  Fd cache_;
  std::string cache_fault_;
  std::uint64_t next_trash_ = 0;
  std::vector<TrashEntry> new_trash_;
  std::vector<TrashEntry> perhaps_trash_;  // it could not be waited for that they are moved there
  UserLocks locks_;
  std::map<std::uint32_t, std::size_t> trash_of_;  // by uid: how many trees, at least one
  Fd memory_;
  Fd memory_trash_;
  std::string memory_path_;
  std::string memory_fault_ = "its administrators have set no directory for it";
};

}  // namespace nodestage

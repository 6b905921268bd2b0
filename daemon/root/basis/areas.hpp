// Areas: the directories that the daemon owns on the node's disk.
//
//   ROOT/<name>                  the job directory, 0700, the user's   (ROOT/<name> is tmpdir.path)
//   ROOT/.nodestage/             0700, root's
//     status/<job>.<restart>.<task>   what workers say (common/wire/status_file.hpp)
//     status/<job>.<restart>.answer   what the daemon says to them (common/wire/space_claim.hpp)
//     trash/<uid>.<gid>.<n>           trees on their way out
//     hold/<job>.<restart>/           trees whose stage-out failed or goes on in the background
//
// All on one file system, so that every move is one rename. Needs root. No function here reads
// what a user wrote.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/os/fd.hpp"
#include "common/result.hpp"

namespace nodestage {

struct JobKey {
  std::uint32_t job = 0;
  std::uint32_t restart = 0;

  auto operator<=>(const JobKey&) const = default;
};
std::string to_text(const JobKey& key);  // "JOB.RESTART"

struct TrashEntry {
  std::string name;
  std::uint32_t uid = 0;  // of the tree's owner
  std::uint32_t gid = 0;
};

// Whether a mount may be in a directory's place. A user can mount there (FUSE), and what does not
// answer would block the daemon; only directories that the site makes are expected to be mounts.
enum class Mounts { refuse, enter };

class Areas {
 public:
  // Opens ROOT, which must exist, belong to `owner` and not be writable by others (unless sticky),
  // and makes what is missing below .nodestage. `owner`: the daemon's own user, root but in tests.
  static Result<Areas> open(const std::string& root, std::uint32_t owner = 0);

  // Makes the job directory `name`. One that is already there is taken when it is a directory of
  // `uid` (a restarted daemon, a site's Prolog), made anew when a daemon that died may have begun
  // it, else refused.
  Status make_directory(const std::string& name, std::uint32_t uid, std::uint32_t gid) const;
  // The directory `name` if it is there and belongs to `uid`; never through a link. Nothing while
  // it is missing.
  Result<std::optional<Fd>> open_directory(const std::string& name, std::uint32_t uid,
                                           Mounts mounts = Mounts::refuse) const;

  // Whether the job directory, open at `directory_fd`, is a mount, which can be moved to no area.
  [[nodiscard]] bool is_mount(int directory_fd) const;

  Result<Fd> open_status(const JobKey& key, const char* task, int flags) const;
  void remove_status(const JobKey& key) const;

  // Away from its name at once. Nothing to do when it is missing.
  Status move_to_trash(const std::string& name, std::uint32_t uid, std::uint32_t gid);
  Status move_to_hold(const std::string& name, const JobKey& key) const;
  Result<std::optional<Fd>> open_held(const JobKey& key, std::uint32_t uid) const;
  Status move_held_to_trash(const JobKey& key, std::uint32_t uid, std::uint32_t gid);

  [[nodiscard]] std::vector<TrashEntry> list_trash() const;
  Result<Fd> open_trash(const std::string& name) const;
  // The emptied directory itself, or what is no directory.
  Status remove_trash(const std::string& name) const;

  [[nodiscard]] std::string path_of(const std::string& name) const { return root_ + "/" + name; }
  [[nodiscard]] std::string held_path(const JobKey& key) const;

 private:
  [[nodiscard]] bool remove_begun(const std::string& name) const;
  Status trash(int from_fd, const std::string& from, std::uint32_t uid, std::uint32_t gid);

  std::string root_;
  std::uint32_t owner_ = 0;
  Fd root_fd_;
  Fd status_;
  Fd trash_;
  Fd hold_;
  std::uint64_t next_trash_ = 0;
};

}  // namespace nodestage

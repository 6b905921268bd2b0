// Locks of the kernel that a user can hold for as long as they like, and system calls that need
// them.
//
// Whoever reads a directory, or writes a file, has its lock meanwhile, and the kernel waits there
// for the caller's memory: for a page of a file on FUSE, until the program that serves it answers.
// To rename or remove a directory takes its lock, too. Whoever waits for it cannot be killed, and a
// rename to another directory makes the others of its file system wait.
//
// So such a call is made by a child process, which first takes the lock alone and gives it back,
// holding nothing else. If that does not come, the child is left to itself, and the call is not
// made. If a lock is taken just then, between the two, FUSE's connections of that user are aborted:
// what waits for them gets an error.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/os/child.hpp"
#include "common/result.hpp"

namespace nodestage {

class UserLocks {
 public:
  // A rename to another directory needs a lock of the whole file system, too, and any user's can
  // have that for as long as that user likes.
  enum class Kind { rename, other };
  struct Call {
    Kind kind = Kind::other;
    std::string path;         // names the tree, in errors, too
    std::uint32_t uid = 0;    // of the user who may hold the locks
    std::vector<int> locked;  // descriptors (O_PATH serves), whose locks `run` needs; borrowed
    std::vector<int> used;    // the other descriptors that `run` uses; borrowed
    // Makes system calls only, and returns 0 or errno.
    std::function<int()> run;
  };
  // Returns what `run` did, or EBUSY, after some tenths of a second, when the user holds a lock.
  // Then it is not certain that the call was not made, or will not be. As long as its child is
  // there, there is no second one for that path, and none for a rename while one does not end.
  Status make(const Call& call);

 private:
  struct Left {
    ChildProcess child;
    bool is_rename = false;  // which has begun
  };
  [[nodiscard]] Status is_free(const Call& call);

  std::map<std::string, Left> left_;  // by path
};

// Aborts FUSE's connections of a user that have requests without an answer. Returns how many.
// `connections` is where fusectl is mounted.
int abort_waiting_fuse(std::uint32_t uid,
                       const std::string& connections = "/sys/fs/fuse/connections");

}  // namespace nodestage

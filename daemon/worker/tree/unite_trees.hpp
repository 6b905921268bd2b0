// UnitedTree: makes one tree of several, by renames. Each is a directory of its own on one file
// system, and goes into the first one in turn.
//
// A directory that the united tree does not have moves as a whole, with all that is in it. Where
// both have a directory, what is in it is united, and it gets the mode and the time of the later
// one. Of two other entries of one name, those with equal contents are one; of different ones the
// later is taken, or they are a fault. A directory and anything else are always a fault.
//
// By descriptors only: follows no link, and works at any depth.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/os/file.hpp"
#include "common/result.hpp"
#include "daemon/worker/budget/meter.hpp"
#include "daemon/worker/budget/space.hpp"
#include "daemon/worker/tree/tree_walk.hpp"

namespace nodestage {

class UnitedTree {
 public:
  enum class Different { refused, last_taken };

  // `root` is the first tree, of the source `name`. Borrows the rest. What does not get into the
  // united tree no longer counts in the meter.
  UnitedTree(Fd root, std::string name, Different different, Meter& meter, const Space& space)
      : root_(std::move(root)),
        different_(different),
        meter_(meter),
        space_(space),
        names_{std::move(name)} {}

  // Moves all that is in the directory `from`, the tree of the source `name`. A directory that only
  // holds a file has no mode and time of its own (`is_file`). After a fault, the united tree is of
  // no use. For what sources disagree about, it names both, and the path.
  Status add(Fd from, std::string name, bool is_file);

  // "2 files were in two of them, with equal contents", or "".
  [[nodiscard]] std::string note() const;

 private:
  static constexpr std::size_t k_most_origins = std::size_t{1} << 16;

  Status take(TreeWalk& walk, const WalkStep& step);
  Status take_directory(TreeWalk& walk, const WalkStep& step);
  Status leave(const WalkStep& step);
  Status move(const WalkStep& step);
  Status take_one_of(const TreeWalk& walk, const WalkStep& step, const struct stat& there);
  Result<bool> is_equal(const WalkStep& step, const struct stat& there) const;
  Result<bool> has_equal_bytes(const WalkStep& step, std::uint64_t size) const;
  void discount(const struct stat& dropped);
  [[nodiscard]] std::uint64_t hash_of(const std::string& name) const;
  [[nodiscard]] std::string earlier_with(const std::string& path) const;
  [[nodiscard]] Error mixed(const std::string& path) const;
  [[nodiscard]] Error conflict(const std::string& path, const char* how, const char* advice) const;

  const Fd root_;
  const Different different_;
  Meter& meter_;
  const Space& space_;
  std::vector<std::string> names_;     // of the sources
  DirStack* dirs_ = nullptr;           // of the united tree, where the walk is
  std::vector<std::uint64_t> hashes_;  // of their paths
  // Which source was the last to move something to a path, by the path's hash. Only so many, so
  // that they take little memory: a fault can then not always name the source.
  std::unordered_map<std::uint64_t, std::uint32_t> origins_;
  std::uint64_t equal_ = 0;
  std::uint64_t replaced_ = 0;
};

}  // namespace nodestage

// Workspace: the hidden directory in which datasets are built, and the one rename by which each
// gets its name in the job directory, so that a name there is complete or absent.
//
//   .nodestage-partial/items/<item>/...   what an item builds
//   .nodestage-partial/complete           destinations placed so far (tree/placed_names.hpp)
//   .nodestage-partial/choice-<item>      what newest= has chosen for an item
//
// A destination is written to `complete` just before its rename, so that a restarted worker knows
// what an earlier one made, and stage-out what a glob has staged.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "common/os/file.hpp"
#include "common/result.hpp"
#include "daemon/worker/budget/meter.hpp"
#include "daemon/worker/budget/space.hpp"
#include "daemon/worker/tree/pending_file.hpp"
#include "daemon/worker/tree/remove_tree.hpp"

namespace nodestage {

inline constexpr const char* k_move_one_of_them =
    "Give one of them another destination: --stage-dataset=SOURCE:DEST";

class Workspace {
 public:
  // What happens to an entry that is at a destination already.
  enum class Existing { stays, goes };
  // Opens it, and removes what an earlier worker left unfinished. Borrows job_fd.
  static Result<Workspace> open(int job_fd, Existing existing = Existing::stays);

  // Creates the directory of an item, or opens it again.
  Result<Fd> make_item(std::size_t item);
  // Removes it and its contents. What cannot be removed is removed with the job directory.
  void remove_item(std::size_t item);
  // What newest= has chosen for an item is chosen once: a worker that goes on after this one finds
  // it again. "": nothing was chosen yet.
  Status keep_choice(std::size_t item, const std::string& choice);
  Result<std::string> kept_choice(std::size_t item) const;
  // Removes the whole workspace; with `keeps_names` but for the names of what was placed.
  void remove(bool keeps_names);

  // Reserves a destination for `source` (a fault shows both): no other destination may be the same,
  // inside it, or around it.
  Status claim(const std::string& destination, const std::string& source);

  // Returns whether an earlier worker placed it. Its parents are not trusted to be directories.
  [[nodiscard]] bool is_placed(const std::string& destination) const;

  // Does the same, and counts what is there when what exists goes: an earlier worker has made it.
  [[nodiscard]] bool is_made(const std::string& destination) const;
  // Removes what this worker has placed.
  void take_back(const std::string& destination);

  // Renames `name` in from_fd to the destination and creates its parents (0755 & ~umask), without
  // following links. Refuses a destination that exists already and stays.
  Status place(int from_fd, const std::string& name, const std::string& destination);

  // Does the same for a new symbolic link to `target`.
  Status link(const std::string& target, const std::string& destination);
  // Returns whether the destination is that link.
  [[nodiscard]] bool is_link_to(const std::string& destination, const std::string& target) const;

  // Takes the write bits from what was placed, and leaves it to its owner alone (0500 for a
  // directory), unless all may read it. Does nothing to a link.
  Status protect(const std::string& destination, WriteBits bits) const;

 private:
  using Claims = std::map<std::string, std::string, std::less<>>;  // destination → source
  [[nodiscard]] Claims::const_iterator claim_on(const std::string& destination) const;
  struct Place {
    Fd parent;
    std::string name;
  };
  [[nodiscard]] Result<Place> find(const std::string& destination) const;
  [[nodiscard]] bool has(const std::string& destination) const;
  Result<Place> prepare(const std::string& destination);
  Workspace(int job_fd, Existing existing) : job_fd_(job_fd), existing_(existing) {}
  Status read_ledger(int top_fd);

  int job_fd_;
  Existing existing_;
  Fd top_;
  Fd items_;
  Fd ledger_;
  PlacedNames placed_;  // by earlier workers
  Claims claims_;
  std::unique_ptr<std::mutex> mutex_ = std::make_unique<std::mutex>();
};

// Makes in to_fd, as `name`, the directories of the tree `from` (O_PATH), writable for the user as
// its umask says, with a symbolic link to each of its files: that leads to the file's place below
// `path`, where the tree is. Links of the tree keep their texts. Of a file, it is one link.
struct LinkWriting {
  mode_t umask;
  unsigned threads;
  Meter& meter;
  Space& space;
};
Status link_tree(Fd from, const std::string& path, int to_fd, const std::string& name,
                 const LinkWriting& writing);

}  // namespace nodestage

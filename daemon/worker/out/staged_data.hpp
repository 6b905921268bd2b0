// StagedData: knows what staging has put into the job directory, and what the job has changed
// since. What was staged and is unchanged is no result: a glob of --stage-out does not mean it.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/request/request.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/worker/deliver/output_links.hpp"
#include "daemon/worker/out/output_target.hpp"
#include "daemon/worker/tree/job_tree.hpp"
#include "daemon/worker/tree/pending_file.hpp"

namespace nodestage {

// Paths are below the job directory. Files and links count as changed when their ctime is later
// than the end of their item's staging: writing, renaming, or replacing one sets it. Directories
// and what python compiles (`__pycache__`) do not count. Where a shared dataset has directories of
// the job's own, its links to what is kept are unchanged, and all else is the job's.
class StagedData {
 public:
  // Borrows job_fd, the job directory.
  StagedData(const StageRequest& request, const DeliveryOrder& order, int job_fd,
             std::uint64_t if_unknown = 0);

  // Returns whether by the request staging puts something at, below, or above the path.
  [[nodiscard]] bool meets(const std::string& path) const;
  // Returns whether something is staged below the path, which staging has not made itself.
  [[nodiscard]] bool is_above(const std::string& path) const;

  // Returns whether something was staged of which the name is gone.
  [[nodiscard]] bool is_any_gone() const;
  [[nodiscard]] bool has_any() const { return !places_.empty(); }

  // Returns whether the entry, which looks as `info`, was staged and is as it was.
  [[nodiscard]] bool is_unchanged(const std::string& path, const struct stat& info) const;
  // Whether all at and below the path is so. Where it is not known, `unknown` is the answer.
  enum class IfUnknown { changed, unchanged };
  [[nodiscard]] bool is_all_unchanged(const JobTree& job, const std::string& path,
                                      IfUnknown unknown) const;

  // Returns whether the entry is a link to what is kept, as staging has made it, or a directory of
  // such links.
  [[nodiscard]] bool is_kept(const std::string& path, const struct stat& info) const;

  // Returns whether it is certain that staging has made the file, which looks as `info`, and that
  // nothing has touched it since.
  [[nodiscard]] bool is_as_staged(const std::string& path, const struct stat& info) const;
  // Returns the path of the item that has put something at or above the path; "" if none has.
  [[nodiscard]] std::string item_at(const std::string& path) const;

  // The results among what `source` of --stage-out has found: of the matches of a glob, those that
  // are not all unchanged. What the glob names itself ("data/*" of the dataset "data") is a result.
  // Of a shared dataset with directories of the job's own, what it has added or replaced is.
  [[nodiscard]] OutputSource results_of(const JobTree& job, const std::string& source,
                                        OutputSource found) const;

 private:
  struct Place {
    std::string name;         // a path, or a glob for the first component of one
    bool is_glob = false;     // a glob of names
    std::uint64_t until = 0;  // wall_ns() when it was complete; 0: not known
    bool is_link = false;     // a link at its name leads to what is kept for several jobs
    bool is_early = false;    // the job may have run before it was complete
    bool is_spread = false;   // it has directories of the job's, with links to what is kept
    std::uint64_t ended = 0;  // of one in which the job may have been first: when it was complete
    // Returns whether it matches every name.
    [[nodiscard]] bool is_any() const {
      return is_glob && name.find_first_not_of('*') == std::string::npos;
    }
    [[nodiscard]] int doubt() const { return is_any() ? 2 : (is_glob ? 1 : 0); }
  };
  void add(const DatasetItem& item, std::uint64_t until, bool is_early);
  void add_image(const std::string& destination);
  void add_names(const std::string& source, const DatasetItem& item, const Place& place);
  [[nodiscard]] const Place* place_of(const std::string& path) const;
  [[nodiscard]] bool is_named(const std::vector<std::string>& globs, const std::string& path) const;
  [[nodiscard]] bool is_changed(const Place& place, const std::string& path,
                                const struct stat& info, IfUnknown unknown) const;
  [[nodiscard]] bool is_old(const Place& place, const std::string& path,
                            const struct stat& info) const;
  [[nodiscard]] bool is_as_spread(const std::string& path, const struct stat& info) const;
  [[nodiscard]] bool has_kept(const std::string& destination) const;

  const int job_fd_;
  const std::string directory_;
  std::vector<Place> places_;
  std::size_t images_ = 0;             // of the request so far
  std::optional<PlacedNames> placed_;  // else the matches of a glob are known by it alone
};

// Returns the results of what find_output_source() finds.
Result<OutputSource> find_results(const JobTree& job, const std::string& source,
                                  const StagedData& staged);

// Returns "data and env were staged and are unchanged: left out"; "" if nothing was left out.
std::string left_out_note(const OutputSource& source);

// Returns the note on a source that is `missing`: "*.tar: matches only what was staged and is
// unchanged (a.tar) in the job's directory", or "a: nothing of that name in the job's directory".
std::string nothing_note(const std::string& source, const OutputSource& found);

// StagedLinks: decides how much of what was staged is delivered in the places of links to it.
// Each directory is looked at once. Borrows everything.
class StagedLinks {
 public:
  // At most `most_bytes` of what was staged and is unchanged are delivered in their places.
  StagedLinks(const JobTree& tree, const StagedData& staged, std::uint64_t most_bytes)
      : tree_(tree), staged_(staged), left_(most_bytes) {}

  // Returns whether all at and below the path, which looks as `info`, was staged and is as it was.
  [[nodiscard]] bool is_all_unchanged(const std::string& path, const struct stat& info);

  // Returns how much of the place is delivered in the place of a link.
  [[nodiscard]] Linked share(const ResolvedPath& place);

 private:
  struct Content;
  [[nodiscard]] Content content_of(const ResolvedPath& place) const;

  const JobTree& tree_;
  const StagedData& staged_;
  std::uint64_t left_;
  std::unordered_map<std::string, bool> unchanged_;  // directories
  std::unordered_map<std::string, Linked> shares_;
};

}  // namespace nodestage

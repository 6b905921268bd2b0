#include "daemon/worker/out/missing_outputs.hpp"

#include <fcntl.h>
#include <fnmatch.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "common/os/file.hpp"
#include "common/text/human.hpp"
#include "common/text/parsing.hpp"
#include "common/text/path_names.hpp"
#include "daemon/worker/out/output_target.hpp"
#include "daemon/worker/tree/tree_walk.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_most_compared = 4096;
constexpr std::size_t k_longest_compared = 64;

// Returns whether it is the daemon's or its workers'.
bool is_hidden_name(std::string_view name) { return name.starts_with(".nodestage"); }

// Sorted; `most` of them are enough.
Result<std::vector<std::string>> names_in(const JobTree& job, const std::string& path,
                                          std::size_t most = SIZE_MAX) {
  TRY_ASSIGN(Fd directory, open_beneath(job.fd(), path.empty() ? "." : path,
                                        O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  DirectoryStream stream(std::move(directory));
  std::vector<std::string> names;
  while (names.size() < most) {
    const auto next = stream.next();
    if (!next) break;
    names.emplace_back(*next);
  }
  if (stream.code() != 0) return system_error(path, stream.code());
  std::sort(names.begin(), names.end());
  return names;
}

// One that cannot be listed may hold results.
bool is_empty(const JobTree& job, const std::string& directory) {
  const auto names = names_in(job, directory, 1);
  return names && names->empty();
}

// Returns where a path leads once its links are followed; nothing if that is not in the directory.
std::optional<std::string> resolved(const JobTree& job, const std::string& path) {
  const auto place = job.find({path});
  if (!place || place->kind != ResolvedPath::Kind::there) return {};
  return place->path;
}

class OutputSearch {
 public:
  OutputSearch(const StageRequest& request, const StagedData& staged, const JobTree& job)
      : staged_(staged), job_(job) {
    for (const OutputItem& item : request.outputs) take(item.source);
  }

  std::vector<std::string> run() {
    look_in("");
    return std::move(left_);
  }

 private:
  // The sources as they are named, and as what they lead to.
  void take(const std::string& source) {
    const auto found = find_output_source(job_, source);
    if (!found) named_.insert(source);  // it cannot be examined, and may exist
    for (const std::string& path : found ? found->paths : std::vector<std::string>()) {
      named_.insert(path);
      const auto real = resolved(job_, path);
      if (real && real->empty()) leads_to_top_ = true;
      if (real && !real->empty()) named_.insert(*real);
    }
  }

  [[nodiscard]] bool is_above_named(const std::string& path) const {
    const auto next = named_.lower_bound(path + "/");
    return next != named_.end() && next->starts_with(path + "/");
  }

  void look_in(const std::string& directory) {
    const auto names = names_in(job_, directory);
    if (!names) return left_.push_back(directory.empty() ? "." : directory);
    for (const std::string& name : *names) {
      const std::string path = joined_path(directory, name);
      if (!is_hidden_name(name) && !lies_in_any(path, named_)) look_at(path);
    }
  }

  void look_at(const std::string& path) {
    struct stat info {};
    const auto entry = open_beneath(job_.fd(), path, O_PATH | O_NOFOLLOW);
    if (!entry && entry.error().code == ENOENT) return;
    if (!entry || ::fstat(entry->get(), &info) != 0) return left_.push_back(path);
    const bool is_directory = S_ISDIR(info.st_mode);
    if (is_directory && (is_above_named(path) || staged_.is_above(path))) return look_in(path);
    if (staged_.is_all_unchanged(job_, path, StagedData::IfUnknown::unchanged)) return;
    if (is_directory ? !is_empty(job_, path)
                     : S_ISREG(info.st_mode) || (S_ISLNK(info.st_mode) && leads_to_left(path)))
      left_.push_back(path);
  }

  [[nodiscard]] bool leads_to_left(const std::string& link) const {
    const auto real = resolved(job_, link);
    if (real && real->empty() && leads_to_top_) return false;
    return real && !lies_in_any(*real, named_) && !is_above_named(*real) && !staged_.meets(*real);
  }

  const StagedData& staged_;
  const JobTree& job_;
  std::set<std::string> named_;
  bool leads_to_top_ = false;  // a source is a link to the job's directory itself
  std::vector<std::string> left_;
};

// Splits a name into its digits and the rest, without separators and without `node`.
std::pair<std::string, std::string> parts_of(std::string name, const std::string& node) {
  if (const std::size_t at = name.find(node); !node.empty() && at != std::string::npos)
    name.replace(at, node.size(), "0");
  std::pair<std::string, std::string> parts;
  for (const char c : name) {
    if (c >= '0' && c <= '9')
      parts.first += c;
    else if (c != '.' && c != '_' && c != '-')
      parts.second += c;
  }
  return parts;
}

bool is_of_one_series(const std::string& one, const std::string& other, const std::string& node) {
  const auto a = parts_of(one, node);
  const auto b = parts_of(other, node);
  return a.second == b.second && a.first != b.first;
}

// The paths, sorted, of what is neither the source of an output nor staged and unchanged; looks
// into directories above such sources. What cannot be examined counts, too. Empty directories,
// sockets and the like, and links that lead nowhere, to such sources, or out of the directory, hold
// nothing that could be lost.
std::vector<std::string> left_results(const StageRequest& request, const StagedData& staged,
                                      const JobTree& job) {
  return OutputSearch(request, staged, job).run();
}

// Returns `left` and what lies directly in them, some thousands at most, to compare names with.
std::vector<std::string> candidates(const std::vector<std::string>& left, const JobTree& job) {
  std::vector<std::string> paths(
      left.begin(), left.begin() + static_cast<long>(std::min(left.size(), k_most_compared)));
  for (const std::string& path : left) {
    if (paths.size() >= k_most_compared) break;
    const auto names = names_in(job, path, k_most_compared - paths.size());
    if (!names) continue;
    for (const std::string& name : *names) paths.push_back(joined_path(path, name));
  }
  return paths;
}

// Returns the candidate whose name is so near to that of `source` (of --stage-out) that it was
// probably meant; "" if there is none. Names of one series ("rank0.log" and "rank1.log", or with
// the name of the node) are not near.
std::string probably_meant(const std::string& source, const std::vector<std::string>& among,
                           const std::string& node) {
  const std::string wanted = lower(last_part(source));
  if (wanted.empty() || wanted.size() > k_longest_compared) return {};
  std::vector<std::string> paths;
  std::vector<std::string> names;
  for (const std::string& path : among) {
    const std::string name = lower(last_part(path));
    if (is_glob(wanted) && ::fnmatch(wanted.c_str(), name.c_str(), FNM_PERIOD) == 0) return path;
    if (name.size() > k_longest_compared || is_of_one_series(wanted, name, node)) continue;
    paths.push_back(path);
    names.push_back(name);
  }
  const auto nearest = nearest_word(wanted, {names.begin(), names.end()});
  return nearest ? paths[*nearest] : "";
}

// Returns whether all of them are files with names like those of logs.
bool are_logs(const std::vector<std::string>& left, const JobTree& job) {
  return std::all_of(left.begin(), left.end(), [&job](const std::string& path) {
    const std::string name = lower(last_part(path));
    const auto ends_in = [&name](std::string_view ending) { return name.ends_with(ending); };
    const bool is_called_so = name.find("log") != std::string::npos || ends_in(".out") ||
                              ends_in(".err") || ends_in(".txt");
    return is_called_so && !open_beneath(job.fd(), path, O_PATH | O_DIRECTORY);
  });
}

constexpr std::size_t k_shown_names = 8;
constexpr std::size_t k_shown_absent = 3;
constexpr std::size_t k_name_width = 60;
constexpr std::size_t k_most_asked = 8;

std::vector<std::string> names_of_the_job(const JobResults& job) {
  constexpr auto k_unknown = StagedData::IfUnknown::unchanged;
  std::vector<std::string> names;
  auto listing = DirectoryStream::at(job.tree.fd());
  while (const auto listed = listing.next()) {
    const std::string name(*listed);
    const bool is_staged =
        job.staged.meets(name) && job.staged.is_all_unchanged(job.tree, name, k_unknown);
    if (!is_hidden_name(name) && !is_staged) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Whether there was something, which is gone. Nothing of ours changes the time of a directory to
// which nothing was staged.
bool is_emptied(const JobResults& job) {
  auto listing = DirectoryStream::at(job.tree.fd());
  while (const auto name = listing.next())
    if (!is_hidden_name(*name)) return false;
  struct statx now {};
  if (listing.code() != 0 ||
      ::statx(job.tree.fd(), "", AT_EMPTY_PATH, STATX_BTIME | STATX_MTIME, &now) != 0)
    return false;
  const auto time = [](const statx_timestamp& at) { return std::pair(at.tv_sec, at.tv_nsec); };
  const bool is_changed = (now.stx_mask & STATX_BTIME) != 0 && !job.staged.has_any() &&
                          time(now.stx_mtime) > time(now.stx_btime);
  return is_changed || job.staged.is_any_gone();
}

// Returns what was probably meant by the first of `sources` for which that is known. Braces can
// stand for thousands of names: only the first few are compared.
std::string first_meant(const std::vector<std::string>& sources,
                        const std::vector<std::string>& candidates, const std::string& node) {
  for (std::size_t i = 0; i < std::min(sources.size(), k_most_asked); ++i) {
    if (std::string meant = probably_meant(sources[i], candidates, node); !meant.empty())
      return meant;
  }
  return {};
}

std::string did_you_mean_path(const std::string& meant) {
  if (meant.empty()) return meant;
  return " (did you mean '" + shortened(printable(meant), k_name_width) + "'?)";
}

}  // namespace

bool MissingOutputs::is_any() const {
  return std::find(is_missing.begin(), is_missing.end(), true) != is_missing.end() ||
         std::any_of(absent.begin(), absent.end(), [](const auto& some) { return !some.empty(); });
}

MissingOutputs find_missing(const StageRequest& request, const DeliveryOrder& order,
                            const JobResults& job) {
  MissingOutputs found;
  bool is_any_there = false;
  for (const OutputItem& item : request.outputs) {
    found.is_missing.push_back(false);
    found.absent.emplace_back();
    found.notes.emplace_back();
    if (is_excluded(item.when, order.outcome)) continue;
    const auto source = job.find(item);
    const bool is_there = !source || source->kind != OutputSource::Kind::missing;
    is_any_there = is_any_there || is_there;
    found.is_missing.back() = !is_there && !item.optional;
    if (!is_there) found.notes.back() = nothing_note(item.source, *source);
    if (source && is_there && !item.optional) found.absent.back() = source->absent;
  }
  if (!found.is_any()) return found;
  found.are_all = !is_any_there;
  found.names = names_of_the_job(job);
  found.is_emptied = is_emptied(job);
  found.left = left_results(request, job.staged, job.tree);
  const std::vector<std::string> compared = candidates(found.left, job.tree);
  for (std::size_t i = 0; i < request.outputs.size(); ++i) {
    std::vector<std::string> wanted = found.absent[i];
    if (found.is_missing[i]) wanted = {request.outputs[i].source};
    found.meant.push_back(first_meant(wanted, compared, order.node));
  }
  return found;
}

bool keeps_left(const MissingOutputs& missing, const DeliveryOrder& order, const JobResults& job) {
  if (missing.left.empty()) return false;
  const bool is_one_near = std::any_of(missing.meant.begin(), missing.meant.end(),
                                       [](const std::string& path) { return !path.empty(); });
  if (order.node_count == 1 || is_one_near) return true;
  return order.node_index == 0 && missing.are_all && order.outcome != JobOutcome::failure &&
         !are_logs(missing.left, job.tree);
}

std::string missing_note(const MissingOutputs& missing, std::size_t i, std::uint64_t deliveries) {
  const auto& names = missing.names;
  std::string note = missing.notes[i];
  if (!names.empty()) note += ", which holds " + listed(names, k_shown_names, k_name_width);
  note += did_you_mean_path(missing.meant[i]);
  if (deliveries > 0)
    return note + "; it was delivered while the job ran, and the job has removed it since";
  if (!missing.is_emptied) return note;
  return note + ", which is empty: if the job removes what is there itself (rm -rf " +
         "$SLURM_TMPDIR/* in a trap, for example), leave that out; the node does it once the " +
         "results are delivered";
}

std::string hidden_note(const std::string& source, const StageRequest& request,
                        const JobResults& job) {
  const SplitPath path = split_path(source);
  if (path.name != "*" && path.name != "**") return {};
  OutputItem hidden;
  hidden.source = joined_path(path.parent, ".*");
  const auto found = job.find(hidden);
  if (!found || found->kind != OutputSource::Kind::matches) return {};
  std::vector<std::string> names;
  for (const std::string& name : left_results(request, job.staged, job.tree))
    if (std::binary_search(found->paths.begin(), found->paths.end(), name)) names.push_back(name);
  if (names.empty()) return {};
  return "'" + shortened(printable(source), k_name_width) +
         "' matches no hidden names, and leaves " + listed(names, k_shown_names, k_name_width) +
         " behind: '" + shortened(printable(joined_path(path.parent, "{*,.*}")), k_name_width) +
         "' takes all";
}

std::string absent_note(const std::vector<std::string>& absent, const std::string& meant) {
  std::string text = "nothing in the job's directory is named or matches ";
  for (std::size_t i = 0; i < std::min(absent.size(), k_shown_absent); ++i)
    text += (i == 0 ? "'" : ", '") + shortened(printable(absent[i]), k_name_width) + "'";
  if (absent.size() > k_shown_absent)
    text += " and " + human_count(absent.size() - k_shown_absent) + " more";
  return text + did_you_mean_path(meant);
}

}  // namespace nodestage

#include "cli/run/kept_results.hpp"

#include "common/text/human.hpp"
#include "daemon/worker/out/deliver_output.hpp"
#include "daemon/worker/out/missing_outputs.hpp"
#include "daemon/worker/out/output_source.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_most_named = 5;  // for more, the directory as a whole is named

}  // namespace

std::vector<std::string> kept_results(const StageRequest& request, JobOutcome outcome,
                                      int directory_fd) {
  std::vector<std::string> paths;
  for (const OutputItem& item : request.outputs) {
    if (is_excluded(item.when, outcome)) continue;
    const auto source = find_output_source(directory_fd, item.source);
    // A source that cannot be examined may exist.
    if (!source) paths.push_back(item.source);
    if (source) paths.insert(paths.end(), source->paths.begin(), source->paths.end());
  }
  if (paths.empty()) {
    const MissingOutputs missing = find_missing(request, outcome, directory_fd);
    if (missing.are_all && outcome != JobOutcome::failure) return missing.left;
  }
  return paths;
}

std::string how_to_copy(const std::vector<std::string>& paths, const std::string& directory) {
  std::string text = "Fetch them with: cp -a";
  if (paths.size() > k_most_named) {
    text += " " + shell_word(directory);
  } else {
    for (const std::string& path : paths) {
      std::string whole = directory;
      whole.append("/").append(path);
      text.append(" ").append(shell_word(whole));
    }
  }
  return text + " ELSEWHERE && rm -rf " + shell_word(directory);
}

}  // namespace nodestage

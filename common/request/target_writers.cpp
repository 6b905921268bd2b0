#include "common/request/target_writers.hpp"

#include <algorithm>

#include "common/text/name_pattern.hpp"
#include "common/text/path_names.hpp"

namespace nodestage {
namespace {

constexpr const char* k_loss = ": of two files with the same name, only one remains";

// Where an output's files go: a target that ends in '/' receives the source under its own name. Not
// for globs, whose matches keep their names.
std::string place_of(const OutputItem& item) {
  if (!item.target.ends_with('/')) return item.target;
  return item.target + item.source.substr(item.source.rfind('/') + 1);
}

bool can_both_happen(When one, When other) {
  return one == When::always || other == When::always || one == other;
}

bool has_one_place(const OutputItem& one, const OutputItem& other) {
  return place_of(one) == place_of(other) && can_both_happen(one.when, other.when);
}

}  // namespace

std::vector<std::string> outputs_of_one_target(const std::vector<OutputItem>& outputs) {
  std::vector<std::string> warnings;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      const bool have_other_names = is_glob(outputs[k].source) || is_glob(outputs[i].source);
      if (have_other_names || !has_one_place(outputs[k], outputs[i])) continue;
      warnings.push_back("'" + outputs[k].source + "' and '" + outputs[i].source +
                         "' are both copied to " + place_of(outputs[i]) + k_loss);
    }
  }
  return warnings;
}

std::vector<std::string> tasks_of_one_target(const std::vector<OutputItem>& outputs) {
  std::vector<std::string> warnings;
  for (const OutputItem& item : outputs) {
    if (names_any(item.target, "aj")) continue;
    warnings.push_back("every task of the array copies '" + item.source + "' to " + place_of(item) +
                       k_loss + "; put %a (the task's index) or %j (its job ID) into the target");
  }
  return warnings;
}

std::vector<std::string> components_of_one_target(const std::vector<OutputItem>& outputs,
                                                  const std::vector<OutputItem>& earlier) {
  std::vector<std::string> warnings;
  for (const OutputItem& item : outputs) {
    const auto has_its_place = [&item](const OutputItem& other) {
      return has_one_place(item, other);
    };
    if (names_any(item.target, "Aj") || std::none_of(earlier.begin(), earlier.end(), has_its_place))
      continue;
    warnings.push_back("several components of the job copy results to " + place_of(item) + k_loss +
                       "; put %j (the component's job ID) into the target");
  }
  return warnings;
}

}  // namespace nodestage

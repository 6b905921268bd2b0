#include "daemon/worker/stage/admit_datasets.hpp"

#include <algorithm>

#include "common/text/human.hpp"

namespace nodestage {
namespace {

std::string subject_of(const std::vector<Dataset*>& datasets, const Need& sum) {
  const std::size_t others = datasets.size() - 1;
  std::string subject = datasets.front()->source();
  if (others == 0) {
    subject += ": needs";
  } else {
    subject += others == 1 ? " and another dataset together need"
                           : " and " + human_count(others) + " other datasets together need";
  }
  return sum.least.bytes < sum.expected.bytes ? subject + " at least" : subject;
}

Status ask_for(const std::vector<Dataset*>& datasets, Allowance& allowance) {
  Need sum;
  for (const Dataset* dataset : datasets) {
    sum = {sum.expected + dataset->need().expected, sum.least + dataset->need().least};
  }
  if (sum.expected == Amount{}) return {};
  return allowance.ask(sum, subject_of(datasets, sum));
}

// 0 for a needed dataset, which is never left out.
std::uint64_t spare_bytes(const Dataset* dataset) {
  return dataset->is_needed() ? 0 : 1 + dataset->need().expected.bytes;
}

}  // namespace

Status admit_datasets(std::vector<Dataset*>& datasets, Allowance& allowance) {
  while (!datasets.empty()) {
    Status admitted = ask_for(datasets, allowance);
    if (admitted) return {};
    const auto spare = std::max_element(
        datasets.begin(), datasets.end(),
        [](const Dataset* a, const Dataset* b) { return spare_bytes(a) < spare_bytes(b); });
    if ((*spare)->is_needed()) return admitted;
    (*spare)->leave_out(admitted.error());
    datasets.erase(spare);
  }
  return {};
}

}  // namespace nodestage

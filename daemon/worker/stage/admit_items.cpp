#include "daemon/worker/stage/admit_items.hpp"

#include <algorithm>

#include "common/text/human.hpp"

namespace nodestage {
namespace {

std::string subject_of(const std::vector<StagedItem*>& items, const Need& sum) {
  const std::size_t others = items.size() - 1;
  std::string subject = items.front()->source();
  if (others == 0) {
    subject += ": needs";
  } else {
    subject += others == 1 ? " and another dataset together need"
                           : " and " + human_count(others) + " other datasets together need";
  }
  return sum.least.bytes < sum.expected.bytes ? subject + " at least" : subject;
}

Status ask_for(const std::vector<StagedItem*>& items, std::uint64_t spare, Allowance& allowance) {
  Need sum{{spare, 0}, {spare, 0}};
  for (const StagedItem* item : items) {
    sum = {sum.expected + item->need().expected, sum.least + item->need().least};
  }
  if (sum.expected == Amount{}) return {};
  return allowance.ask(sum, items.empty() ? "" : subject_of(items, sum),
                       spare > 0 ? Allowance::Spare::included : Allowance::Spare::none);
}

// 0 for what is needed, which is never left out.
std::uint64_t spare_bytes(const StagedItem* item) {
  return item->is_needed() ? 0 : 1 + item->need().expected.bytes;
}

}  // namespace

Result<std::uint64_t> admit_items(std::vector<StagedItem*>& items, const Spare& spare,
                                  Allowance& allowance) {
  if (spare.wanted > 0 && ask_for(items, spare.wanted, allowance)) return spare.wanted;
  if (spare.least < spare.wanted && ask_for(items, spare.least, allowance)) return spare.least;
  while (!items.empty()) {
    Status admitted = ask_for(items, 0, allowance);
    if (admitted) return std::uint64_t{0};
    const auto largest = std::max_element(
        items.begin(), items.end(),
        [](const StagedItem* a, const StagedItem* b) { return spare_bytes(a) < spare_bytes(b); });
    if ((*largest)->is_needed()) return admitted.error();
    (*largest)->leave_out(admitted.error());
    items.erase(largest);
  }
  return std::uint64_t{0};
}

}  // namespace nodestage

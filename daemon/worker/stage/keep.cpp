#include "daemon/worker/stage/keep.hpp"

#include <utility>

#include "common/text/human.hpp"
#include "daemon/worker/share/identify.hpp"
#include "daemon/worker/stage/stage.hpp"
#include "daemon/worker/stage/stage_report.hpp"

namespace nodestage {

int run_keep(KeepOrder order, const StageRequest& request, OpenedItems items) {
  StageRequest wanted;
  wanted.umask = k_umask_for_all;
  OpenedByText opened;
  for (SharedItem& shared : order.shared) {
    if (shared.item >= request.datasets.size() || !is_for_readers(request.datasets[shared.item]))
      return StageReport().fail("what it is to keep is not in the request", {});
    if (const auto found = items.find(shared.item); found != items.end())
      opened.emplace(request.datasets[shared.item].source, std::move(found->second));
    const auto index = static_cast<std::uint32_t>(wanted.datasets.size());
    DatasetItem& item = wanted.datasets.emplace_back(request.datasets[shared.item]);
    item.destination = std::to_string(index) + "/" + last_part(shared.path);
    item.name.clear();
    item.storage = Storage::disk;
    shared.item = index;
  }
  read_opened_only(std::move(opened));
  return run_stage(order, wanted, nullptr);
}

}  // namespace nodestage

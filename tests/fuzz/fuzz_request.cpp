// A request that a user has forged: it is refused, or keeps every promise of one, and is read back
// as the same.
#include "common/request/request.hpp"
#include "common/text/path_names.hpp"
#include "input.hpp"

using namespace nodestage;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto request = decode_request(text_of(data, size));
  if (!request) return 0;
  require(request->datasets.size() <= k_max_request_items);
  require(request->outputs.size() <= k_max_request_items);
  for (const DatasetItem& item : request->datasets) {
    require(item.source.starts_with('/'));
    require(item.destination.empty() || is_path_below(item.destination));
  }
  for (const OutputItem& item : request->outputs) {
    require(is_path_below(item.source));
    require(item.target.starts_with('/'));
  }
  const std::string again = encode_request(*request);
  if (again.size() > k_max_request_bytes) return 0;
  const auto same = decode_request(again);
  require(same && *same == *request);
  return 0;
}

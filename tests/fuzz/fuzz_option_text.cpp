// The text of an option, as a user types it: what is taken makes a request that a node takes, too.
#include "common/request/destinations.hpp"
#include "common/request/option_text.hpp"
#include "common/text/archive_names.hpp"
#include "common/text/path_names.hpp"
#include "input.hpp"

using namespace nodestage;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // "~name" asks the user database, which is not what is tried here.
  const std::string_view text = text_of(data, size);
  if (text.find('~') != std::string_view::npos) return 0;
  const SubmitContext place{"/submit/here", "/home/alice"};
  StageRequest request;
  if (auto dataset = parse_dataset_option(text, place)) {
    static_cast<void>(destination_of(*dataset));
    static_cast<void>(variable_name(dataset->name));
    request.datasets.push_back(std::move(*dataset));
  }
  if (auto output = parse_output_option(text, place)) request.outputs.push_back(std::move(*output));
  static_cast<void>(check_together(request));
  static_cast<void>(archive_suffix(text));
  static_cast<void>(default_destination(text));
  const std::string json = encode_request(request);
  if (json.size() > k_max_request_bytes) return 0;
  const auto decoded = decode_request(json);
  if (decoded) require(*decoded == request);
  return 0;
}

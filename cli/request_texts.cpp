#include "cli/request_texts.hpp"

#include "common/human.hpp"
#include "common/submission.hpp"

namespace nodestage {
namespace {

using Add = Status (*)(StageRequest&, std::string_view);

Status add_all(StageRequest& request, const std::string& option,
               const std::vector<std::string>& texts, Add add) {
  for (const std::string& text : texts) {
    if (Status added = add(request, text); !added) {
      return Error{added.error().code,
                   option + "=" + shortened(printable(text), 200) + ": " + added.error().what};
    }
  }
  return {};
}

}  // namespace

Result<StageRequest> to_request(const RequestTexts& texts) {
  StageRequest request;
  TRY(add_all(request, "--stage-dataset", texts.datasets, add_dataset));
  TRY(add_all(request, "--stage-venv", texts.venvs, add_venv));
  TRY(add_all(request, "--stage-out", texts.outputs, add_output));
  if (request.venv) add_what_a_build_needs(*request.venv, {});
  return request;
}

}  // namespace nodestage

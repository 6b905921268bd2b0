#include "cli/base/request_texts.hpp"

#include <cstdio>

#include "common/request/request_warnings.hpp"
#include "common/request/submission.hpp"

namespace nodestage {
namespace {

using Add = Status (*)(StageRequest&, std::string_view);

Status add_all(StageRequest& request, const std::vector<std::string>& texts, Add add) {
  for (const std::string& text : texts) TRY(add(request, text));
  return {};
}

}  // namespace

Result<StageRequest> to_request(const RequestTexts& texts) {
  StageRequest request;
  TRY(add_all(request, texts.datasets, add_dataset));
  TRY(add_all(request, texts.venvs, add_venv));
  TRY(add_all(request, texts.outputs, add_output));
  if (request.venv) add_what_a_build_needs(*request.venv, {});
  for (const std::string& warning : look_in_time(request, Start::now).warnings)
    std::fprintf(stderr, "nodestage: warning: %s\n", warning.c_str());
  return request;
}

}  // namespace nodestage

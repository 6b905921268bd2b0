// What the text of an option is parsed as, from a directory with a blank in its name.
#pragma once

#include <doctest/doctest.h>

#include "common/request/option_text.hpp"
#include "texts.hpp"

namespace nodestage {

inline const SubmitContext k_place{"/work dir", "/home/alice"};

inline DatasetItem dataset(std::string_view text) {
  auto item = parse_dataset_option(text, k_place);
  REQUIRE_MESSAGE(item, (item ? "" : item.error().text()));
  return *item;
}

inline std::string dataset_fault(std::string_view text) {
  return must_fail(parse_dataset_option(text, k_place)).text();
}

inline std::string venv_fault(std::string_view text) {
  return must_fail(parse_venv_option(text, k_place)).text();
}

inline OutputItem output(std::string_view text) {
  auto item = parse_output_option(text, k_place);
  REQUIRE_MESSAGE(item, (item ? "" : item.error().text()));
  return *item;
}

inline std::string output_fault(std::string_view text) {
  return must_fail(parse_output_option(text, k_place)).text();
}

}  // namespace nodestage

// Texts that can be any bytes, such as the paths that users type, where a list of texts is
// otherwise in UTF-8 (json_value.hpp).
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace nodestage {

struct ByteTexts : std::vector<std::string> {
  using std::vector<std::string>::vector;
  ByteTexts(std::vector<std::string> texts)  // NOLINT: it says no more than they do
      : std::vector<std::string>(std::move(texts)) {}
};

}  // namespace nodestage

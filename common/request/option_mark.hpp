// A refusal of an option, as its user sees it: what is wrong, the text as it was typed, and a mark
// under the place in it.
//
//   --stage-out: when=sucess (did you mean 'success'?): only always, success or failure
//     --stage-out=results:out,when=sucess
//                             ^~~~~~~~~~~
#pragma once

#include <cstddef>
#include <string_view>

#include "common/result.hpp"

namespace nodestage {

struct TextPlace {  // bytes [begin, end) of an option's text; empty: at its end
  std::size_t begin = 0;
  std::size_t end = 0;
};

// `option`: "stage-out". Its `what` is these three lines, printable (common/text/human.hpp) and
// without a newline at the end. Of a long text the part around the place is shown.
Error marked(std::string_view option, std::string_view text, TextPlace place, const Error& cause);

}  // namespace nodestage

// A refused option as its user sees it: what is wrong, the text as it was typed, a mark under the
// part that is wrong, and what to do, if that is known.
//
//   --stage-out: when=sucess (did you mean 'success'?): only always, success or failure
//     --stage-out=results:out,when=sucess
//                             ^~~~~~~~~~~
//   the form is --stage-out=SOURCE:TARGET[,key[=value]]..., for example ...
#pragma once

#include <cstddef>
#include <string_view>

#include "common/result.hpp"

namespace nodestage {

struct TextPlace {  // bytes [begin, end) of an option's text; if empty, the mark is at `begin`
  std::size_t begin = 0;
  std::size_t end = 0;
};

// `option` is a name such as "stage-out". The error's `what` is these three or four lines,
// printable (common/text/human.hpp), without a final newline. Of a long text only the part around
// `place` is shown.
Error marked(std::string_view option, std::string_view text, TextPlace place, const Error& cause);

}  // namespace nodestage

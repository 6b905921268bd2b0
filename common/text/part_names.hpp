// Knows the parts of one file, as split(1), zip -s, 7z -v and archives of data name them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/result.hpp"

namespace nodestage {

// The parts of one file.
struct JoinedParts {
  std::string whole;                // the path of the file that they make, which need not exist
  std::vector<std::string> paths;   // in order
  std::vector<std::string> others;  // that were given and are no part of it
};

inline constexpr std::size_t k_most_parts = 10'000;

// Puts the parts among `matches` of the glob `source` in order. Names without a joint ("xaa") count
// if no other name is that of a part; a file alone whose name is no part's is its own only part.
// Faults have an advice: no match is a part (EINVAL), matches are parts of several files (EINVAL),
// or one is missing (ENOENT).
Result<JoinedParts> order_parts(const std::vector<std::string>& matches, const std::string& source);

// Returns what was left out, for the user; "": nothing.
std::string left_out_parts(const JoinedParts& parts);

struct PartLook {
  std::uint64_t size = 0;
  std::int64_t modified = 0;  // seconds since 1970
};
// Returns what makes it doubtful that parts that look so are one whole file, in their order; "":
// nothing does. All but the last of a file that was split have one size, and each was written after
// the one before it.
std::string doubt_of_parts(const std::vector<std::string>& paths,
                           const std::vector<PartLook>& looks);

// Returns "/p/data.tar.gz" for the glob "/p/data.tar.gz.part*": the path of what is joined as far
// as the text says.
std::string whole_of_glob(const std::string& glob);

// Returns "--stage-dataset='/p/data.tar.gz.part*:data,join'" for a part, to be pasted; "" if its
// path cannot be pasted, or its name is not a part's.
std::string how_to_join(const std::string& path);

}  // namespace nodestage

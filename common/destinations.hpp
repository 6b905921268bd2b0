// Where the items of a request go, by their names alone, and that they do not meet there.
#pragma once

#include <string>
#include <string_view>

#include "common/request.hpp"
#include "common/result.hpp"

namespace nodestage {

// "/p/data.tar.zst" → "data"; "/p/dir/" → "dir"; "x.h5" → "x.h5". For a glob: the glob's own
// base name without suffix.
std::string default_destination(std::string_view source);

// Whether `path` ends in it, in lower or upper case.
bool has_suffix(std::string_view path, std::string_view suffix);

// The longest archive suffix (".tar.gz", ".tgz", ".zip", …) that `path` ends in, in lower case
// whatever the path's is, or "". It lives for ever.
std::string_view archive_suffix(std::string_view path);

// The <NAME> of NODESTAGE_DATASET_<NAME>: upper case, every other character than A-Z 0-9 is '_',
// '_' before a leading digit.
std::string variable_name(std::string_view text);

// Contains * ? or [. The worker takes a name that exists literally as that file all the same, and
// "\\*" (typed so) as a literal star.
bool is_glob(std::string_view path);

// Where `item` would go: its destination, or the default one.
std::string destination_of(const DatasetItem& item);

// Refuses what can only be a mistake in the request as a whole: two items (the venv is one) with
// one destination, or one inside another, or one variable name. The fault names both items and what
// to do.
Status check_together(const StageRequest& request);

}  // namespace nodestage

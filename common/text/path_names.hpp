// What the names of files and directories tell, by themselves.
#pragma once

#include <string>
#include <string_view>

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

// "a/b", "a b": yes. "", ".", "/a", "../a", "a/../b", a name with NUL, one that starts with
// ".nodestage": no.
bool is_path_below(std::string_view path);

// Whether an environment can lie there: its path goes into scripts of many shells and into PATH, so
// it holds no quote, '$', '\\', '`', ':' and no control character.
bool is_venv_path(std::string_view path);

// [A-Za-z_][A-Za-z0-9_]*
bool is_variable_name(std::string_view name);

}  // namespace nodestage

// What can be known of files and directories from their names alone.
#pragma once

#include <string>
#include <string_view>

namespace nodestage {

// "/p/data.tar.zst" → "data"; "/p/dir/" → "dir"; "x.h5" → "x.h5". A glob gives its own base name
// without the suffix.
std::string default_destination(std::string_view source);

// Whether `path` ends in `suffix`, ignoring case.
bool has_suffix(std::string_view path, std::string_view suffix);

// The <NAME> of NODESTAGE_DATASET_<NAME>: in upper case, with '_' for every character other than
// A-Z 0-9, and before a leading digit.
std::string variable_name(std::string_view text);

// Whether `path` contains * ? [ or braces (common/text/glob_text.hpp). If a file with that literal
// name exists, the worker takes it as that file; it takes "\\*" (typed so) as a literal star.
bool is_glob(std::string_view path);

// Where the first of these is in it; path.size(): nowhere.
std::size_t start_of_glob(std::string_view path);

// True for "a/b" and "a b"; false for "", ".", "/a", "../a", "a/../b", a name with a NUL, and one
// that starts with ".nodestage".
bool is_path_below(std::string_view path);

// Whether a virtual environment can be at `path`: the path goes into scripts of many shells and
// into PATH, so it must not contain quotes, '$', '\\', '`', ':' or control characters.
bool is_venv_path(std::string_view path);

// [A-Za-z_][A-Za-z0-9_]*
bool is_variable_name(std::string_view name);

}  // namespace nodestage

// Finds what can be known of files and directories from their names alone.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/text/human.hpp"

namespace nodestage {

// Returns "data" for "/p/data.tar.zst", "dir" for "/p/dir/", "x.h5" for "x.h5". A glob gives its
// own base name without the suffix.
std::string default_destination(std::string_view source);

// Returns `text` in small letters; bytes beyond ASCII stay.
std::string lower(std::string_view text);

// Returns whether `path` ends in `suffix`, ignoring case.
bool has_suffix(std::string_view path, std::string_view suffix);

// Orders names with the numbers in them as numbers: "part2" before "part10".
bool is_before_by_numbers(std::string_view name, std::string_view other);

// Returns "/a" for "/a/b", and "/" for "/a" and for a name alone.
std::string parent_of(const std::string& path);

// Returns "/a" for "/a//", and "/" for "//".
std::string without_slashes(std::string path);

// Returns the <NAME> of NODESTAGE_DATASET_<NAME>: in upper case, with '_' for every character other
// than A-Z 0-9, and before a leading digit.
std::string variable_name(std::string_view text);

// Returns whether `path` has * ? [ or braces (common/text/glob_text.hpp). If a file with that
// literal name exists, the worker takes that file; it takes "\\*" (typed so) as a literal star.
bool is_glob(std::string_view path);

// Returns where the first of these is in `path`, or path.size().
std::size_t start_of_glob(std::string_view path);

// Returns true for "a/b" and "a b"; false for "", ".", "/a", "../a", "a/../b", a name with a NUL,
// and one that starts with ".nodestage".
bool is_path_below(std::string_view path);

// Returns whether `path` is the directory or below it. Both are absolute and normal, but for
// slashes that end the directory.
bool is_below(std::string_view path, std::string_view directory);

// Returns whether a virtual environment can be at `path`: the path goes into scripts of many shells
// and into PATH, so it must not contain quotes, '$', '\\', '`', ':' or control characters.
bool is_venv_path(std::string_view path);

// Returns whether it is [A-Za-z_][A-Za-z0-9_]*.
bool is_variable_name(std::string_view name);

// What both `nodestage plan` and a job's output say of a directory that is better packed.

// From this number of files on, an archive is read faster from a shared file system.
inline constexpr std::uint64_t k_many_files = 2000;

// Returns the command that packs the directory, to be pasted. If `path` cannot be shown as it is,
// or is empty because it is not known, returns a sentence that names the verb.
inline std::string how_to_pack(const std::string& path) {
  if (path.empty() || printable(path) != path) return "nodestage pack makes one";
  return "nodestage pack " + shell_word(path) + " -o " +
         shell_word(default_destination(path) + ".tar.zst");
}

}  // namespace nodestage

// The names that staging has given in a job directory, in the file in which the staging worker
// notes each: NUL-terminated paths below the directory. It is the user's, and only the user is
// deceived by a change of it.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace nodestage {

using PlacedNames = std::set<std::string, std::less<>>;

// While the worker stages, and where one ended too early.
inline constexpr const char* k_partial_directory = ".nodestage-partial";
inline constexpr const char* k_placed_file = "complete";  // in it
// Afterwards, where names are known from there alone: those of a glob's matches.
inline constexpr const char* k_placed_afterwards = ".nodestage-placed";

// Parses the file. Drops a name without its end: its entry was not made.
PlacedNames parse_placed_names(std::string_view text);

// Reads the file; returns nothing if the directory has none that can be read.
std::optional<PlacedNames> read_placed_names(int job_fd);

}  // namespace nodestage

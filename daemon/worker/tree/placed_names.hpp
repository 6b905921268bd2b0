// The names that staging has given in a job directory, in the file in which the staging worker
// notes each: NUL-terminated paths below the directory. It is the user's, who deceives only himself
// by changing it.
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

// A name without its end was not written completely, so its entry was not made.
PlacedNames parse_placed_names(std::string_view text);

// Empty if the directory has no such file that can be read.
std::optional<PlacedNames> read_placed_names(int job_fd);

}  // namespace nodestage

// Globs as text: braces, which stand for several texts, and "**".
//
// Braces are those of bash: "{a,b}", "{000..127}" (as wide as the wider number), "{0..9..3}",
// "{a..e}", and braces in braces. What is not of these forms, such as "{a}", is literal, and so is
// "${" and what follows a backslash. Of the texts, a backslash before a brace or a comma is gone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"

namespace nodestage {

inline constexpr std::size_t k_max_brace_texts = 10'000;

// Returns the position of the '}' of braces that start at text[at]; npos: none start there.
std::size_t end_of_braces(std::string_view text, std::size_t at);

bool has_braces(std::string_view text);

// Returns the texts in bash's order; `text` itself if it has no braces. E2BIG: more than
// k_max_brace_texts, or several MiB in all.
Result<std::vector<std::string>> brace_texts(std::string_view text);

// Returns where the first component "**" of a path starts, which means any number of directories,
// none too; npos: it has none.
std::size_t start_of_any_depth(std::string_view path);

// Expands the % patterns of a stage-out target or a dataset's source, as in Slurm's own file-name
// patterns (sbatch(1), "filename pattern"): %j job id, %A array's job id (the job id outside of an
// array), %a array index, %u user, %x job name, %N node name, %n node's index in the job, %r
// restart count, %% a percent sign. A number between % and the letter pads numbers with zeros
// (%4a).

// The values of patterns; an empty member is not known here.
struct PatternFacts {
  std::uint32_t job = 0;
  std::uint32_t restart = 0;
  std::string user;
  std::string node;
  std::optional<std::uint32_t> node_index;
  std::optional<std::uint32_t> array_job;
  std::optional<std::uint32_t> array_task;
  std::optional<std::string> job_name;
};

// Expands the patterns. A fault names one that does not exist (EINVAL) or whose value is not known
// here (ENODATA). Values are not expanded again, and each is one name: a '/' in it becomes '_', and
// so do the dots of "." and "..".
Result<std::string> expand_pattern(std::string_view text, const PatternFacts& facts);

inline constexpr std::string_view k_pattern_letters = "jAauxNnr";

// Checks the syntax only, at submit. These letters alone are known.
Status check_pattern(std::string_view text, std::string_view letters = k_pattern_letters);

// Returns whether `text` contains %N or %n and so differs from node to node.
bool names_node(std::string_view text);

// Returns whether `text` contains one of these letters as a pattern.
bool names_any(std::string_view text, std::string_view letters);

}  // namespace nodestage

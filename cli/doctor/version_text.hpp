// `nodestage --version --verbose`: this build, the libraries that it uses, and the kernel's
// features.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace nodestage {

// Names and values, in the order in which they are shown.
using Facts = std::vector<std::pair<std::string, std::string>>;

std::string version_line();  // "nodestage 0.1.0"

// What can be found out without Slurm's daemons, nodestaged, or root.
Facts version_facts();

// Returns a line for each: the name, and the values below each other.
std::string facts_text(const Facts& facts);

// Returns the Slurm release of a plugin's version number: "22.05".
std::string slurm_release_text(std::uint32_t version);

}  // namespace nodestage

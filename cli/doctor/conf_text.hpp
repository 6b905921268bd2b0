// Parses the text of configuration files: words, and values by key.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nodestage {

std::string lower(std::string text);

// Returns the words of a line, without a comment that starts with '#'.
std::vector<std::string> words_of(const std::string& line);

// Returns each value of KEY=VALUE[,VALUE]... in any line. Keys are compared without regard to case.
std::vector<std::string> values_in(std::string_view text, const std::string& key);

// Does the same of `KEY: VALUE[, VALUE]...` in a file of YAML, with or without quotation marks.
std::vector<std::string> yaml_values_in(std::string_view text, std::string_view key);

// Returns the files that a pattern of the shell matches, sorted; none if it matches none.
std::vector<std::string> files_like(const std::string& pattern);

}  // namespace nodestage

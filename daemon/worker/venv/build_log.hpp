// Reads what the programs of a build have written to its log.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace nodestage {

// The text of a file that a build has written; "" if it is not a regular file, since a build may
// have left anything under that name.
std::string text_of_file(const std::string& path, std::size_t most);

// Returns the whole log, for the functions below.
std::string text_of_log(const std::string& path);
// Returns its last lines for a message, each after "\n  | ".
std::string last_lines(std::string_view log);
// Returns the name in pip's "No matching distribution found for NAME"; "" if that is not the cause.
std::string missing_package(std::string_view log);
// Returns where pip searched; "" if it does not say so.
std::string searched_places(std::string_view log);

// The last line of a log that is still being written, for the progress.
std::string said_last(const std::string& path);

}  // namespace nodestage

// What the programs of a build have said, in its log.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace nodestage {

// The text of a file that a build has written; "" if it is not a regular file, since a build may
// have left anything under that name.
std::string text_of_file(const std::string& path, std::size_t most);

// The whole log, for the functions below.
std::string text_of_log(const std::string& path);
// Its last lines for a message, each after "\n  | ".
std::string last_lines(std::string_view log);
// The name in pip's "No matching distribution found for NAME"; "" if that is not the cause.
std::string missing_package(std::string_view log);
// Where pip searched; "" if it does not say so.
std::string searched_places(std::string_view log);

// The last line of a log that is still being written, for the progress.
std::string said_last(const std::string& path);

}  // namespace nodestage

// Explains why the file of a program cannot be run.
#pragma once

#include <string>

namespace nodestage {

// Returns the file that execvp runs for `program`, which it looks up in `path` (as $PATH) if it has
// no slash. "" if there is none.
std::string program_file(const std::string& program, const std::string& path);

// Returns whether the file is a script whose first line names an interpreter and ends in a carriage
// return, as Windows writes lines.
bool has_windows_lines(const std::string& file);

// Returns why the file, which exists, cannot be run (`code`: execve's errno): a line with the
// cause, after the file's name, and a line with the advice.
std::string why_not_run(const std::string& file, int code);

}  // namespace nodestage

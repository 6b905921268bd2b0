// What the text of a script and the words of a command say before they run.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nodestage {

// Reads the beginning of a regular file; "" if it is none, or cannot be read.
std::string script_text(const std::string& path);

// Returns a warning if #SBATCH lines of the script ask for staging where Slurm does not read them:
// below the first command. "" otherwise.
std::string ignored_directives(std::string_view script);

// If the command is a login shell, or a script whose first line makes it one, returns the note that
// its start files can take a staged environment out of PATH. "" otherwise, and where our own start
// file (conf/profile.sh), which is at `profile`, puts it back.
std::string login_shell_note(const std::vector<std::string>& command,
                             const std::string& profile = "/etc/profile.d/zz-nodestage.sh");

}  // namespace nodestage

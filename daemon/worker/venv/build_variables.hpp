// The variables of a build, as NAME=VALUE, and the files of settings to which they lead.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nodestage {

using BuildVariables = std::vector<std::string>;

// Returns "NAME" of "NAME=VALUE".
std::string_view name_of_variable(std::string_view variable);
// Returns the value of a variable; "" if there is none.
std::string value_in(const BuildVariables& variables, std::string_view name);
void set_variable(BuildVariables& variables, const std::string& name, const std::string& value);

// Returns where pip looks for its settings, the file that counts most at the end. They need not
// exist. A site's settings in the interpreter's own directory are not among them: a new environment
// has none. `home` is the user's own, whatever HOME is.
std::vector<std::string> pip_settings(const BuildVariables& variables, const std::string& home);
// Returns where uv looks. `directory` is the requirements file's, with a '/'.
std::vector<std::string> uv_settings(const BuildVariables& variables, const std::string& home,
                                     const std::string& directory);

}  // namespace nodestage

#include "daemon/worker/venv/build_variables.hpp"

#include <unistd.h>

namespace nodestage {
namespace {

std::string config_directory(const BuildVariables& variables, const std::string& home) {
  const std::string own = value_in(variables, "XDG_CONFIG_HOME");
  return own.empty() ? home + "/.config" : own;
}

}  // namespace

std::string_view name_of_variable(std::string_view variable) {
  return variable.substr(0, variable.find('='));
}

std::string value_in(const BuildVariables& variables, std::string_view name) {
  for (const auto& variable : variables) {
    if (name_of_variable(variable) == name && variable.size() > name.size())
      return variable.substr(name.size() + 1);
  }
  return {};
}

void set_variable(BuildVariables& variables, const std::string& name, const std::string& value) {
  std::erase_if(variables, [&](const auto& other) { return name_of_variable(other) == name; });
  variables.push_back(name + "=" + value);
}

// As pip itself: with a file in PIP_CONFIG_FILE, the user's do not count, and with /dev/null there,
// none does.
std::vector<std::string> pip_settings(const BuildVariables& variables, const std::string& home) {
  const std::string named = value_in(variables, "PIP_CONFIG_FILE");
  if (named == "/dev/null") return {};
  std::vector<std::string> files{"/etc/xdg/pip/pip.conf", "/etc/pip.conf"};
  if (named.empty() || ::access(named.c_str(), F_OK) != 0) {
    files.push_back(home + "/.pip/pip.conf");
    files.push_back(config_directory(variables, home) + "/pip/pip.conf");
  }
  if (!named.empty()) files.push_back(named);
  return files;
}

std::vector<std::string> uv_settings(const BuildVariables& variables, const std::string& home,
                                     const std::string& directory) {
  return {value_in(variables, "UV_CONFIG_FILE"), config_directory(variables, home) + "/uv/uv.toml",
          "/etc/uv/uv.toml", directory + "uv.toml", directory + "pyproject.toml"};
}

}  // namespace nodestage

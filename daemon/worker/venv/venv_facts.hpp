// What the files of a Python environment say about it. Pure functions.
//
//   direct_url.json  {"url": "file:///...", "dir_info": {"editable": true}} (PEP 610)
//   pyvenv.cfg       KEY = VALUE in each line (PEP 405)
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nodestage {

// The directory that an editable install is read from, by its direct_url.json; "" for any other.
std::string editable_source(std::string_view direct_url);

// Returns the absolute paths that a .pth file adds to sys.path.
std::vector<std::string> pth_paths(std::string_view pth);

// The path where the environment was made, from a shell activate script (VIRTUAL_ENV=...); "" if
// there is none.
std::string place_in_activate(std::string_view activate);

// Returns the value of "KEY = VALUE" in pyvenv.cfg, "" if there is none.
std::string venv_setting(std::string_view pyvenv_cfg, std::string_view key);

}  // namespace nodestage

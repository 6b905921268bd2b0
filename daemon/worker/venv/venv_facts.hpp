// What the files of a Python environment say of it. Pure functions.
//
//   direct_url.json  {"url": "file:///...", "dir_info": {"editable": true}} (PEP 610)
//   pyvenv.cfg       KEY = VALUE in each line (PEP 405)
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nodestage {

// Where an editable install reads from, by its direct_url.json; "" for any other.
std::string editable_source(std::string_view direct_url);

// Absolute paths that a .pth file adds to sys.path.
std::vector<std::string> pth_paths(std::string_view pth);

// What a shell activate script says of the place where it was made: VIRTUAL_ENV=...; "" if nothing.
std::string place_in_activate(std::string_view activate);

// The value of "KEY = VALUE" in pyvenv.cfg, "" if there is none.
std::string venv_setting(std::string_view pyvenv_cfg, std::string_view key);

}  // namespace nodestage

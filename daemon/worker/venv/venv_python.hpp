// Finds the interpreter behind a Python environment, and whether this node has it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"
#include "daemon/worker/venv/venv_text.hpp"

namespace nodestage {

// What the files of a Python environment say about it. Pure functions.
//
//   direct_url.json  {"url": "file:///...", "dir_info": {"editable": true}} (PEP 610)
//   pyvenv.cfg       KEY = VALUE in each line (PEP 405)

// The directory that an editable install is read from, by its direct_url.json; "" for any other.
std::string editable_source(std::string_view direct_url);

// Returns the absolute paths that a .pth file adds to sys.path.
std::vector<std::string> pth_paths(std::string_view pth);

// The path where the environment was made, from a shell activate script (VIRTUAL_ENV=...); "" if
// there is none.
std::string place_in_activate(std::string_view activate);

// Returns the value of "KEY = VALUE" in pyvenv.cfg, "" if there is none.
std::string venv_setting(std::string_view pyvenv_cfg, std::string_view key);
// Returns pyvenv.cfg with another value of a key that it has.
std::string with_venv_setting(std::string_view pyvenv_cfg, std::string_view key,
                              const std::string& value);

// Below an environment's directory: the interpreter that was staged with it (venv_interpreter.hpp).
inline constexpr std::string_view k_own_python = ".python";
// What a link in bin to that starts with.
inline constexpr std::string_view k_to_own_python = "../.python/bin/";

// Returns the path without links, or "".
std::string real_path(const std::string& path);

struct VenvPython {
  std::string path;     // absolute, outside of the environment; "": inside (conda, k_own_python)
  std::string version;  // from lib/pythonX.Y inside: "3.11"; "" if there is none
  bool has_packages = false;  // the environment uses those of the interpreter, too
};

// Finds that of the environment in dir_fd, before it is relocated. The first of `move.from()` is
// the path from which links in bin with ".." start; `source` is for messages. A fault names the
// interpreter if this node lacks it or has another version of it. Runs no file of the environment.
Result<VenvPython> venv_python(int dir_fd, const VenvMove& move, const std::string& source,
                               const std::string& node);

// Read what is below the environment in dir_fd, and follow no link: a regular file's text, "" if
// there is none or it is larger; a directory's names, sorted.
std::string text_in(int dir_fd, const std::string& path, std::size_t most = std::size_t{1} << 20);
std::vector<std::string> names_in(int dir_fd, const std::string& path);

// Returns where an environment was made, according to its own files: activate, pyvenv.cfg, most #!
// lines of bin. May be empty.
std::vector<std::string> old_places(int dir_fd);

// What a directory is: it contains pyvenv.cfg; conda-meta and bin/python; or none of these.
enum class VenvKind { none, venv, conda };
VenvKind venv_kind(int dir_fd);

// Refuses, with a text for the user, a file that can be no requirements file: text without a NUL.
Status check_is_requirements(const std::string& path);

// Refuses a path that is a part of an environment, with the name of that.
Status check_whole_environment(const std::string& path);

}  // namespace nodestage

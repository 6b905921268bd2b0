// The interpreter behind a Python environment: where it is, and whether this node has it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"
#include "daemon/worker/venv/venv_text.hpp"

namespace nodestage {

struct VenvPython {
  std::string path;     // absolute, outside of the environment; "": it has one of its own (conda)
  std::string version;  // of lib/pythonX.Y in it: "3.11"; "" if there is none
};

// Of the environment in dir_fd, before it is relocated. `move.from()` begins with the place that
// links of bin with ".." start from; `source` is for messages. A fault that names the interpreter
// when this node lacks it, or has another version of it. No file of the environment is run.
Result<VenvPython> venv_python(int dir_fd, const VenvMove& move, const std::string& source,
                               const std::string& node);

// Where an environment was made, by what its own files say: activate, pyvenv.cfg, most #! lines of
// bin. May be empty.
std::vector<std::string> old_places(int dir_fd);

// What a directory is: it holds pyvenv.cfg; conda-meta and bin/python; or none of these.
enum class VenvKind { none, venv, conda };
VenvKind venv_kind(int dir_fd);

// The first `name` in PATH of `environment` ("NAME=VALUE" each) that this process may run; "" if
// none.
std::string program_in(const std::vector<std::string>& environment, std::string_view name);

bool is_program(const std::string& path);

}  // namespace nodestage

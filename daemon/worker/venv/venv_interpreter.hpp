// The interpreter of an environment that is staged with it: one that lies in a user's directory (of
// uv, of pyenv, a conda base) would be read from there at each import of the standard library.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/request/request.hpp"
#include "daemon/worker/venv/venv_python.hpp"

namespace nodestage {

struct PrivateInterpreter {
  std::string program;  // without links
  std::string prefix;   // the directory of the installation
  std::string name;     // "python3.11": of the program, and of its directory in lib
  bool has_packages;    // the environment uses those of the interpreter, too

  // The directory of the standard library.
  [[nodiscard]] std::string library() const { return prefix + "/lib/" + name; }
  // What an environment does not use of library(): globs in it.
  [[nodiscard]] std::vector<std::string> unused() const;
  // Which parts of the prefix an environment needs.
  [[nodiscard]] DatasetItem parts() const;
  // The end of a note on a program that names a directory of the prefix for its own library (one of
  // pyenv that was made with --enable-shared), or "".
  [[nodiscard]] std::string library_note() const;
};

// Returns the interpreter if its directory belongs to the caller or to the owner of item.source,
// but not to root. Nothing with python=keep, or for one of a module.
std::optional<PrivateInterpreter> private_interpreter(const VenvPython& python,
                                                      const VenvItem& item);

// The same for the environment that the directory item.source is.
std::optional<PrivateInterpreter> interpreter_of_directory(const VenvItem& item);

}  // namespace nodestage

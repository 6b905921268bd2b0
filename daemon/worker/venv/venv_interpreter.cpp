#include "daemon/worker/venv/venv_interpreter.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/file.hpp"
#include "common/text/path_names.hpp"
#include "daemon/worker/basis/fault.hpp"
#include "daemon/worker/tree/job_tree.hpp"
#include "daemon/worker/venv/venv_relocation.hpp"
#include "daemon/worker/venv/venv_text.hpp"

namespace nodestage {
namespace {

constexpr std::string_view k_special = "*?[\\";

bool is_of_a_user(int prefix_fd, const std::string& source) {
  struct stat prefix {};
  struct stat environment {};
  if (::fstat(prefix_fd, &prefix) != 0 || ::stat(source.c_str(), &environment) != 0) return false;
  return prefix.st_uid != 0 &&
         (prefix.st_uid == ::geteuid() || prefix.st_uid == environment.st_uid);
}

}  // namespace

std::vector<std::string> PrivateInterpreter::unused() const {
  std::vector<std::string> globs{"./test/test_*", "./config-*/*.a"};
  if (!has_packages) globs.emplace_back("./site-packages");
  return globs;
}

// Tcl and Tk are of tkinter. What a full Anaconda has for its packages alone is gigabytes.
DatasetItem PrivateInterpreter::parts() const {
  DatasetItem parts;
  parts.include = {"bin/python*",  "bin/pypy*", "bin/libpypy*", "include/" + name, "lib/" + name,
                   "lib/lib*.so*", "lib/tcl*",  "lib/tk*",      "lib/itcl*"};
  if (!has_packages)
    parts.exclude = {"lib/libmkl*", "lib/libQt*", "lib/libLLVM*",
                     "lib/libcu*",  "lib/libnv*", "lib/libtorch*"};
  for (const auto& glob : unused()) parts.exclude.push_back("lib/" + name + glob.substr(1));
  return parts;
}

std::string PrivateInterpreter::library_note() const {
  const auto file = open_at(AT_FDCWD, program, k_open_source);
  const std::string search = file ? elf_search_path(file->get()) : "";
  if (!moved_text(search, VenvMove({prefix}, "/"))) return {};
  return ", but for its libpython, which it reads from " + shown(search) + " (RPATH)";
}

std::optional<PrivateInterpreter> private_interpreter(const VenvPython& python,
                                                      const VenvItem& item) {
  if (item.python == k_keep_python || !item.modules.empty()) return std::nullopt;
  PrivateInterpreter found{real_path(python.path), {}, {}, python.has_packages};
  if (found.program.empty()) return std::nullopt;
  const SplitPath program = split_path(found.program);
  const SplitPath bin = split_path(program.parent);
  found.prefix = bin.parent;
  found.name = program.name;
  if (bin.name != "bin" || found.name.find_first_of(k_special) != std::string::npos)
    return std::nullopt;
  const auto prefix = open_at(AT_FDCWD, found.prefix, O_PATH | O_DIRECTORY | O_NOFOLLOW);
  if (!prefix || !is_of_a_user(prefix->get(), item.source)) return std::nullopt;
  const auto has = [&](const std::string& path) {
    return static_cast<bool>(
        open_beneath(prefix->get(), "lib/" + found.name + path, O_PATH, 0, RESOLVE_NO_SYMLINKS));
  };
  // Packages that a link leads to would not come along.
  return has("/os.py") && (!found.has_packages || has("/site-packages")) ? std::optional(found)
                                                                         : std::nullopt;
}

std::optional<PrivateInterpreter> interpreter_of_directory(const VenvItem& item) {
  const auto source = open_at(AT_FDCWD, item.source, O_PATH | O_DIRECTORY);
  const std::string resolved = source ? real_path(item.source) : std::string();
  if (resolved.empty()) return std::nullopt;
  const VenvMove move({resolved, without_slashes(item.source)}, resolved);
  const auto python = venv_python(source->get(), move, item.source, "");
  return python ? private_interpreter(*python, item) : std::nullopt;
}

}  // namespace nodestage

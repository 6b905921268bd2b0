// Fusermount: a fusermount3 of a test's own, first in PATH, which mounts nothing.
#pragma once

#include <stdlib.h>
#include <sys/stat.h>

#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "scratch.hpp"

// Changes PATH for its lifetime.
class WithPath {
 public:
  explicit WithPath(const std::string& path) : before_(::getenv("PATH")) {
    ::setenv("PATH", path.c_str(), 1);
  }
  WithPath(const WithPath&) = delete;
  WithPath& operator=(const WithPath&) = delete;
  ~WithPath() { ::setenv("PATH", before_.c_str(), 1); }

 private:
  std::string before_;
};

inline std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_script(const std::string& path, const std::string& text) {
  std::ofstream(path) << "#!/bin/sh\n" << text << "\n";
  ::chmod(path.c_str(), 0755);
}

// Sends a descriptor, as the real one does.
inline const std::string k_send =
    "exec python3 -c 'import os, socket\n"
    "with socket.socket(fileno=int(os.environ[\"_FUSE_COMMFD\"])) as to:\n"
    "    socket.send_fds(to, [b\"x\"], [os.open(\"/dev/zero\", os.O_RDWR)])'";

class Fusermount {
 public:
  // `script`: what it does to mount.
  Fusermount(const Scratch& scratch, const std::string& script)
      : log_(scratch / "log"), path_(scratch.path().string() + ":" + ::getenv("PATH")) {
    write_script(scratch / "fusermount3",
                 "echo \"$*\" >>" + log_ + "\n[ \"$1\" != -u ] || exit 0\n" + script);
  }

  // The arguments of each call, on a line.
  [[nodiscard]] std::string calls() const { return text_of(log_); }

  // What it was to detach.
  [[nodiscard]] std::vector<std::string> detached() const {
    std::vector<std::string> paths;
    std::istringstream lines(calls());
    const std::string options = "-u -z -- ";
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with(options)) paths.push_back(line.substr(options.size()));
    }
    return paths;
  }

 private:
  std::string log_;
  WithPath path_;
};

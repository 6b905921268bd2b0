#include "cli/run/program_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "common/os/file.hpp"
#include "common/text/human.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_most_read = 256;  // the kernel looks at no more of a first line

bool is_file(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

// Without its newline.
std::string first_line(const std::string& file) {
  const auto fd = open_at(AT_FDCWD, file, O_RDONLY | O_NONBLOCK);
  char block[k_most_read];
  const ssize_t count = fd ? ::read(fd->get(), block, sizeof block) : 0;
  const std::string_view all(block, static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  return std::string(all.substr(0, all.find('\n')));
}

// "#!/bin/sh -e" as "/bin/sh"; "" if the line names none.
std::string interpreter_in(const std::string& line) {
  if (!line.starts_with("#!")) return {};
  const std::size_t begin = line.find_first_not_of(" \t", 2);
  if (begin == std::string::npos) return {};
  return line.substr(begin, line.find_first_of(" \t\r", begin) - begin);
}

bool allows_no_programs(const std::string& file) {
  struct statvfs disk {};
  return ::statvfs(file.c_str(), &disk) == 0 && (disk.f_flag & ST_NOEXEC) != 0;
}

}  // namespace

std::string program_file(const std::string& program, const std::string& path) {
  if (program.find('/') != std::string::npos) return is_file(program) ? program : "";
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find(':', begin), path.size());
    std::string file = path.substr(begin, end - begin) + "/" + program;
    if (::access(file.c_str(), X_OK) == 0 && is_file(file)) return file;
    begin = end + 1;
  }
  return {};
}

bool has_windows_lines(const std::string& file) {
  const std::string line = first_line(file);
  return line.starts_with("#!") && line.ends_with('\r');
}

std::string why_not_run(const std::string& file, int code) {
  const std::string name = printable(file);
  if (code == ENOENT && has_windows_lines(file))
    return name +
           ": its lines end as Windows writes them, with a carriage return, and so its first line "
           "names an interpreter that does not exist\nCorrect it with: sed -i 's/\\r$//' " +
           shell_word(file);
  if (const auto interpreter = interpreter_in(first_line(file));
      code == ENOENT && !interpreter.empty())
    return name + ": its first line names an interpreter that does not exist here: " +
           printable(interpreter) +
           "\nCorrect that line, or name the interpreter before the script.";
  if (code == ENOENT)
    return name +
           ": it is a program for another system: this one lacks the loader that it "
           "needs\nBuild it here, or use the one that this system has.";
  if (code == EACCES && allows_no_programs(file))
    return name +
           ": its file system lets no program run (noexec)\nName its interpreter before it, or "
           "copy "
           "it to another file system.";
  return name + ": " + std::strerror(code) +
         "\nIs it a program, and may you execute it? (chmod +x)";
}

}  // namespace nodestage

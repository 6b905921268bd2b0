// as_child(): runs a body in a forked child, which may give up what it likes.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

// What `body` returns, or what a program that it became printed (its stdout is the pipe).
inline std::string as_child(const std::function<std::string()>& body) {
  int ends[2];
  if (::pipe(ends) != 0) return "pipe failed";
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::dup2(ends[1], 1);
    ::close(ends[0]);
    const std::string said = body();
    const ssize_t written = ::write(1, said.data(), said.size());
    ::_exit(written == static_cast<ssize_t>(said.size()) ? 0 : 1);
  }
  ::close(ends[1]);
  std::string said;
  char block[4096];
  for (ssize_t count = 0; (count = ::read(ends[0], block, sizeof block)) > 0;) {
    said.append(block, static_cast<std::size_t>(count));
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(pid, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    said += " (child ended with status " + std::to_string(status) + ")";
  return said;
}

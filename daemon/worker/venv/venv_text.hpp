// The texts of a Python environment and the absolute paths in them: what changes in each when the
// environment moves. Pure functions.
//
//   #! line          "#!INTERPRETER [ARGUMENT]\n"; the kernel reads 127 bytes of it (255 from Linux
//                    5.1 on) and ends the interpreter at a blank. For longer paths, or with blanks,
//                    pip and others write three lines that are sh and Python:
//                      #!/bin/sh
//                      '''exec' "INTERPRETER" [ARGUMENT] "$0" "$@"
//                      ' '''
//                    Scripts of other languages look for it in PATH then: "#!/usr/bin/env NAME\n".
//   RECORD           of an installed wheel: PATH,sha256=BASE64,SIZE in each line (PEP 376)
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nodestage {

// The places where an environment was, and the one where it will be. All are absolute, without '/'
// at the end.
class VenvMove {
 public:
  VenvMove(std::vector<std::string> from, std::string to);

  // A path as it may be written in a text, and as the new one is written there.
  struct Spelling {
    std::string from;
    std::string to;
  };
  [[nodiscard]] const std::vector<std::string>& from() const { return from_; }
  [[nodiscard]] const std::string& to() const { return to_; }
  [[nodiscard]] const std::vector<Spelling>& spellings() const { return spellings_; }

  // The path after the move; "" for one that was outside.
  [[nodiscard]] std::string moved(const std::string& path) const;

 private:
  std::vector<std::string> from_;
  std::string to_;
  std::vector<Spelling> spellings_;  // the longest first: "/p/env/inner" before "/p/env"
};

// Every path in `text` that is one of move.from(), or below it, leads to move.to(); also where it
// is percent-encoded (URLs), with \u escapes (JSON), or quoted for a shell. A path that only begins
// alike
// ("/p/env2" for "/p/env") or ends alike ("/mnt/p/env") is another. Nothing when none is there.
std::optional<std::string> moved_text(std::string_view text, const VenvMove& move);

// In a file that is no text: each path in a string that ends in a NUL, which keeps its length.
// Nothing when none is there; a string that would grow stays as it is, and `left` counts it.
std::optional<std::string> moved_strings(std::string_view data, const VenvMove& move,
                                         unsigned& left);

// The same as moved_text() for a shell's activate script, with quotes around the new path where it
// stands bare and needs some.
std::optional<std::string> moved_activate(std::string_view text, const VenvMove& move);

// A script's interpreter.
struct Interpreter {
  std::string path;
  std::string arguments;   // as they are in the script; most have none
  std::size_t length = 0;  // of the lines that name it, with their end
};
std::optional<Interpreter> interpreter_of(std::string_view script);

// The lines that name it: in one line where the kernel can read that.
std::string interpreter_lines(const Interpreter& interpreter);

// A script, whatever follows its first lines. Its interpreter is moved, and with `env` one that
// `/usr/bin/env pythonN` looks for, too; then the rest, unless it holds a NUL (an archive behind a
// #!).
enum class EnvPython { keep, take };
std::optional<std::string> moved_script(std::string_view script, const VenvMove& move,
                                        EnvPython env);

// A file's "sha256=BASE64,SIZE" in RECORD: the digits of URLs, without padding. "" if this
// machine's OpenSSL has no SHA-256 to give.
std::string record_hash(std::string_view content);

// RECORD with other hashes and sizes: fresh(path) is the new content's "sha256=...,SIZE" for a path
// as it is there, or "". Nothing when all is as it was.
std::optional<std::string> updated_record(
    std::string_view record, const std::function<std::string(const std::string&)>& fresh);

bool is_below(std::string_view path, std::string_view directory);  // or is it

}  // namespace nodestage

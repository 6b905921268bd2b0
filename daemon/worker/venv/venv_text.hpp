// The texts of a Python environment and the absolute paths in them: what changes in each when the
// environment moves. Pure functions.
//
//   #! line          "#!INTERPRETER [ARGUMENT]\n"; the kernel reads 127 bytes of it (255 from Linux
//                    5.1 on) and ends the interpreter at a blank. For longer paths, or with blanks,
//                    pip and others write three lines that are both sh and Python:
//                      #!/bin/sh
//                      '''exec' "INTERPRETER" [ARGUMENT] "$0" "$@"
//                      ' '''
//                    Scripts in other languages then use PATH: "#!/usr/bin/env NAME\n".
//   RECORD           of an installed wheel: PATH,sha256=BASE64,SIZE in each line (PEP 376)
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nodestage {

// The paths where an environment was, and the one where it will be. All are absolute, without '/'
// at the end.
class VenvMove {
 public:
  // What is a path in a text: one of its own; or what conda replaces in the files that it lists,
  // also behind a word ("-isystem/p/env"), unless that is part of a longer path or the name goes
  // on.
  enum class Match { path, prefix };
  VenvMove(std::vector<std::string> from, std::string to, Match match = Match::path);

  // A path in one of the forms in which texts contain it, and the new path in the same form.
  struct Spelling {
    std::string from;
    std::string to;
  };
  [[nodiscard]] const std::vector<std::string>& from() const { return from_; }
  [[nodiscard]] const std::string& to() const { return to_; }
  [[nodiscard]] const std::vector<Spelling>& spellings() const { return spellings_; }
  [[nodiscard]] Match match() const { return match_; }

  // Returns the path after the move; "" for one that was outside.
  [[nodiscard]] std::string moved(const std::string& path) const;

 private:
  std::vector<std::string> from_;
  std::string to_;
  Match match_;
  std::vector<Spelling> spellings_;  // the longest first: "/p/env/inner" before "/p/env"
};

// Replaces every path in `text` that is, or is below, one of move.from() by one at move.to(), also
// if it is percent-encoded (URLs), has \u escapes (JSON), or is quoted for a shell. A path that
// only starts alike ("/p/env2" for "/p/env") or ends alike ("/mnt/p/env") is another one. Returns
// nothing if there is none.
std::optional<std::string> moved_text(std::string_view text, const VenvMove& move);

// What changes in a binary file, which keeps its size: each string that ends in a NUL and contains
// a path. A string that has no room stays as it is, and `left` counts it. `placeholder` is the
// length of the prefix that the paths had when the file was packed, or 0: a string has the NULs
// with which its shorter path was padded then.
struct StringPatch {
  std::size_t at;
  std::string bytes;
};
std::vector<StringPatch> string_patches(std::string_view data, const VenvMove& move,
                                        std::size_t placeholder, unsigned& left);

// Like moved_text(), for a shell's activate script: quotes a bare new path if necessary.
std::optional<std::string> moved_activate(std::string_view text, const VenvMove& move);

// A script's interpreter.
struct Interpreter {
  std::string path;
  std::string arguments;   // as in the script; most have none
  std::size_t length = 0;  // of the lines that name it, including their end
};
std::optional<Interpreter> interpreter_of(std::string_view script);

// Rewrites a script, whatever follows its first lines: its interpreter, with EnvPython::take also
// one that `/usr/bin/env pythonN` looks for; then the rest, unless it contains a NUL (an archive
// after a #! line).
enum class EnvPython { keep, take };
std::optional<std::string> moved_script(std::string_view script, const VenvMove& move,
                                        EnvPython env);

// A file's "sha256=BASE64,SIZE" in RECORD, with the digits of URLs and without padding. "" if this
// machine's OpenSSL has no SHA-256.
std::string record_hash(std::string_view content);

// RECORD with new hashes and sizes: fresh(path) returns the new content's "sha256=...,SIZE" for a
// path as written there, or "". Empty if nothing changes.
std::optional<std::string> updated_record(
    std::string_view record, const std::function<std::string(const std::string&)>& fresh);

}  // namespace nodestage

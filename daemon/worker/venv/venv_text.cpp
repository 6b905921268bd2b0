#include "daemon/worker/venv/venv_text.hpp"

#include <openssl/evp.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/text/parsing.hpp"
#include "common/text/path_names.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_kernel_limit = 127;
constexpr std::size_t k_max_line = 4096;  // the longest line that is searched for quotes
constexpr std::string_view k_exec = "'''exec' ";
constexpr std::string_view k_exec_end = "\n' '''\n";

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// Returns whether a byte can be part of a longer name of which the path is only a piece.
bool is_of_a_name(char c) {
  return is_letter_or_digit(c) || c == '_' || c == '-' || c == '+' || c == '~' || c == '%' ||
         (static_cast<unsigned char>(c) & 0x80) != 0;
}

// "-I/p/env" and similar options are not "I/p/env".
bool begins_here(std::string_view text, std::size_t at) {
  if (at == 0) return true;
  const char before = text[at - 1];
  if (at >= 2 && is_letter_or_digit(before) && text[at - 2] == '-') return true;
  return !is_of_a_name(before) && before != '.';
}

// A full stop can end a sentence or continue the name.
bool ends_path(std::string_view text, std::size_t at) {
  if (at >= text.size()) return true;
  if (text[at] == '.') return at + 1 >= text.size() || !is_of_a_name(text[at + 1]);
  return !is_of_a_name(text[at]);
}

// Returns false for the end of a longer path: "/mnt/p/env", "../p/env".
bool begins_prefix(std::string_view text, std::size_t at) {
  std::size_t name = at;
  while (name > 0 && (is_of_a_name(text[name - 1]) || text[name - 1] == '.')) --name;
  return name == at || (text[at - 1] != '.' && (name == 0 || text[name - 1] != '/'));
}

bool ends_prefix(std::string_view text, std::size_t at) {
  return at >= text.size() || !(is_letter_or_digit(text[at]) || text[at] == '_' || text[at] == '-');
}

bool is_whole(std::string_view text, std::size_t begin, std::size_t end, VenvMove::Match match) {
  return match == VenvMove::Match::prefix ? begins_prefix(text, begin) && ends_prefix(text, end)
                                          : begins_here(text, begin) && ends_path(text, end);
}

std::string percent_encoded(std::string_view path) {
  static constexpr char k_digits[] = "0123456789ABCDEF";
  std::string text;
  for (const char c : path) {
    if (is_letter_or_digit(c) || std::string_view("/_.-~").find(c) != std::string_view::npos) {
      text += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    text.append({'%', k_digits[byte >> 4], k_digits[byte & 15]});
  }
  return text;
}

// The path as it is written in a JSON text of ASCII; "" if it is not UTF-8.
std::string json_escaped(const std::string& path) {
  try {
    const std::string text = nlohmann::json(path).dump(-1, ' ', true);
    return text.substr(1, text.size() - 2);
  } catch (const nlohmann::json::exception&) {  // thrown by the library
    return {};
  }
}

// Returns the path inside single quotes, as Python's shlex.quote writes it.
std::string shell_escaped(std::string_view path) {
  std::string text;
  for (const char c : path) text += c == '\'' ? "'\"'\"'" : std::string(1, c);
  return text;
}

using Spelling = VenvMove::Spelling;

// Calls put(begin, end, spelling) for each occurrence of a path in `text`, in order.
template <typename Put>
bool each_place(std::string_view text, const VenvMove& move, Put put) {
  const auto& all = move.spellings();
  std::vector<std::size_t> next(all.size(), 0);
  bool any = false;
  for (std::size_t at = 0;;) {
    std::size_t first = std::string_view::npos;
    const Spelling* found = nullptr;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (next[i] == std::string_view::npos) continue;
      if (next[i] < at || at == 0) {
        std::size_t place = text.find(all[i].from, at);
        while (place != std::string_view::npos &&
               !is_whole(text, place, place + all[i].from.size(), move.match())) {
          place = text.find(all[i].from, place + 1);
        }
        next[i] = place;
      }
      if (next[i] < first) {
        first = next[i];
        found = &all[i];
      }
    }
    if (found == nullptr) return any;
    any = true;
    at = first + found->from.size();
    put(first, at, *found);
  }
}

// Returns whether `at` is inside quotes on its line.
bool is_quoted(std::string_view text, std::size_t at) {
  const std::size_t line = std::max(text.rfind('\n', at) + 1, at - std::min(at, k_max_line));
  char open = '\0';
  for (const char c : text.substr(line, at - line)) {
    if (open == '\0' && (c == '\'' || c == '"')) {
      open = c;
    } else if (c == open) {
      open = '\0';
    }
  }
  return open != '\0';
}

bool needs_quotes(std::string_view path) {
  return std::any_of(path.begin(), path.end(), [](char c) {
    return !is_letter_or_digit(c) && std::string_view("/_.-+@%,").find(c) == std::string_view::npos;
  });
}

bool is_python_name(std::string_view name) {
  for (const std::string_view kind : {"python", "pypy"}) {
    if (!name.starts_with(kind)) continue;
    return name.find_first_not_of("0123456789.td", kind.size()) == std::string_view::npos;
  }
  return false;
}

// Returns the text after '#!', cut at the first blank.
Interpreter one_line(std::string_view line, std::size_t length) {
  const std::string_view text = trimmed(line);
  const std::size_t blank = std::min(text.find_first_of(" \t"), text.size());
  return {std::string(text.substr(0, blank)), std::string(trimmed(text.substr(blank))), length};
}

std::optional<Interpreter> in_exec_form(std::string_view script, std::size_t second) {
  std::string_view rest = script.substr(second);
  const std::size_t end = rest.find(k_exec_end);
  const std::size_t line_end = rest.find('\n');
  if (!rest.starts_with(k_exec) || end == std::string_view::npos || end != line_end)
    return std::nullopt;
  const std::size_t length = second + end + k_exec_end.size();
  rest = rest.substr(k_exec.size(), end - k_exec.size());
  std::size_t path_end = rest.find(' ');
  std::string_view path = rest.substr(0, path_end);
  if (rest.starts_with('"')) {
    path_end = rest.find('"', 1);
    if (path_end == std::string_view::npos) return std::nullopt;
    path = rest.substr(1, path_end - 1);
    ++path_end;
  }
  const std::size_t script_name = rest.rfind("\"$0\"");
  if (path_end == std::string_view::npos || script_name == std::string_view::npos ||
      script_name < path_end) {
    return std::nullopt;
  }
  return Interpreter{std::string(path),
                     std::string(trimmed(rest.substr(path_end, script_name - path_end))), length};
}

// Returns the interpreter's new path, or "" if it stays.
std::string moved_interpreter(const Interpreter& interpreter, const VenvMove& move, EnvPython env) {
  if (env == EnvPython::take && interpreter.path.ends_with("/env") &&
      is_python_name(interpreter.arguments)) {
    return move.to() + "/bin/" + interpreter.arguments;
  }
  return move.moved(interpreter.path);
}

// Returns the lines that name the interpreter: one line if the kernel can read it.
std::string interpreter_lines(const Interpreter& interpreter) {
  const std::string arguments = interpreter.arguments.empty() ? "" : " " + interpreter.arguments;
  const bool one = interpreter.path.find_first_of(" \t") == std::string::npos &&
                   2 + interpreter.path.size() + arguments.size() <= k_kernel_limit;
  if (one) return "#!" + interpreter.path + arguments + "\n";
  const std::string name = interpreter.path.substr(interpreter.path.rfind('/') + 1);
  // The three lines are not valid Perl, and would start a shell again and again.
  if (!is_python_name(name))
    return "#!/usr/bin/env " + std::string(arguments.empty() ? "" : "-S ") + name + arguments +
           "\n";
  return "#!/bin/sh\n" + std::string(k_exec) + '"' + interpreter.path + '"' + arguments +
         " \"$0\" \"$@\"" + std::string(k_exec_end);
}

}  // namespace

VenvMove::VenvMove(std::vector<std::string> from, std::string to, Match match)
    : from_(std::move(from)), to_(std::move(to)), match_(match) {
  const auto add = [this](std::string text, std::string moved_to) {
    const bool known = std::any_of(spellings_.begin(), spellings_.end(),
                                   [&](const auto& other) { return other.from == text; });
    if (!text.empty() && !known) spellings_.push_back({std::move(text), std::move(moved_to)});
  };
  for (const auto& path : from_) {
    add(path, to_);
    if (match_ == Match::prefix) continue;
    add(percent_encoded(path), percent_encoded(to_));
    add(json_escaped(path), json_escaped(to_));
    add(shell_escaped(path), to_);
  }
  std::stable_sort(spellings_.begin(), spellings_.end(),
                   [](const auto& a, const auto& b) { return a.from.size() > b.from.size(); });
}

std::string VenvMove::moved(const std::string& path) const {
  for (const auto& place : from_) {
    if (is_below(path, place)) return to_ + path.substr(place.size());
  }
  return {};
}

std::vector<StringPatch> string_patches(std::string_view data, const VenvMove& move,
                                        std::size_t placeholder, unsigned& left) {
  std::vector<StringPatch> patches;
  std::size_t begin = 0;
  std::size_t stop = 0;  // the end of the string in which the last place was
  std::size_t padding = 0;
  const auto end_string = [&] {
    if (stop == 0 || stop == data.size()) return;
    const std::string_view room = data.substr(stop, padding + 1);
    if (room.size() <= padding || room.find_first_not_of('\0') != std::string_view::npos)
      padding = 0;
    auto text = moved_text(data.substr(begin, stop - begin), move);
    if (!text || text->size() > stop - begin + padding) {
      ++left;
      return;
    }
    text->resize(std::max(text->size(), stop - begin), '\0');
    patches.push_back({begin, std::move(*text)});
  };
  each_place(data, move, [&](std::size_t at, std::size_t end, const Spelling& spelling) {
    if (at >= stop) {
      end_string();
      begin = at;
      stop = std::min(data.find('\0', end), data.size());
      padding = 0;
    }
    padding += placeholder - std::min(placeholder, spelling.from.size());
  });
  end_string();
  return patches;
}

namespace {

// Puts what `put` returns for each place of the text there; nothing if there is none.
template <typename Put>
std::optional<std::string> with_places(std::string_view text, const VenvMove& move, Put put) {
  std::string result;
  std::size_t done = 0;
  const bool any =
      each_place(text, move, [&](std::size_t begin, std::size_t end, const Spelling& spelling) {
        result.append(text.substr(done, begin - done)).append(put(begin, spelling));
        done = end;
      });
  if (!any) return std::nullopt;
  return result.append(text.substr(done));
}

}  // namespace

std::optional<std::string> moved_text(std::string_view text, const VenvMove& move) {
  return with_places(text, move, [](std::size_t, const Spelling& at) { return at.to; });
}

std::optional<std::string> moved_activate(std::string_view text, const VenvMove& move) {
  const bool quotes = needs_quotes(move.to());
  return with_places(text, move, [&](std::size_t begin, const Spelling& at) {
    return quotes && !is_quoted(text, begin) ? "'" + move.to() + "'" : at.to;
  });
}

std::optional<Interpreter> interpreter_of(std::string_view script) {
  if (!script.starts_with("#!")) return std::nullopt;
  const std::size_t end = std::min(script.find('\n'), script.size());
  const std::size_t length = std::min(end + 1, script.size());
  Interpreter first = one_line(script.substr(2, end - 2), length);
  if (first.path == "/bin/sh") {
    if (auto inner = in_exec_form(script, length)) return inner;
  }
  return first;
}

std::optional<std::string> moved_script(std::string_view script, const VenvMove& move,
                                        EnvPython env) {
  auto interpreter = interpreter_of(script);
  if (!interpreter) return std::nullopt;
  const std::string path = moved_interpreter(*interpreter, move, env);
  std::string_view body = script;
  std::string start;
  if (!path.empty()) {
    if (interpreter->path.ends_with("/env")) interpreter->arguments.clear();
    interpreter->path = path;
    body = script.substr(interpreter->length);
    start = interpreter_lines(*interpreter);
  }
  const bool is_text = body.find('\0') == std::string_view::npos;
  const auto rest = is_text ? moved_text(body, move) : std::nullopt;
  if (path.empty() && !rest) return std::nullopt;
  return rest ? start + *rest : start.append(body);
}

std::optional<std::string> updated_record(
    std::string_view record, const std::function<std::string(const std::string&)>& fresh) {
  std::string result;
  bool any = false;
  while (!record.empty()) {
    const std::size_t end = std::min(record.find('\n'), record.size() - 1) + 1;
    const std::string_view line = record.substr(0, end);
    record.remove_prefix(end);
    const std::size_t size_comma = line.rfind(',');
    const std::size_t hash_comma = size_comma == std::string_view::npos || size_comma == 0
                                       ? std::string_view::npos
                                       : line.rfind(',', size_comma - 1);
    if (hash_comma == std::string_view::npos || hash_comma + 1 == size_comma) {
      result += line;
      continue;
    }
    std::string path(line.substr(0, hash_comma));
    if (path.size() >= 2 && path.front() == '"' && path.back() == '"')
      path = path.substr(1, path.size() - 2);
    const std::string line_end = fresh(path);
    if (line_end.empty()) {
      result += line;
      continue;
    }
    any = true;
    result.append(line.substr(0, hash_comma + 1)).append(line_end);
    result += line.ends_with("\r\n") ? "\r\n" : "\n";
  }
  if (!any) return std::nullopt;
  return result;
}

std::string record_hash(std::string_view content) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  if (EVP_Digest(content.data(), content.size(), digest, &size, EVP_sha256(), nullptr) != 1)
    return {};
  unsigned char base64[EVP_MAX_MD_SIZE * 2];
  const int length = EVP_EncodeBlock(base64, digest, static_cast<int>(size));
  std::string text(base64, base64 + length);
  std::replace(text.begin(), text.end(), '+', '-');
  std::replace(text.begin(), text.end(), '/', '_');
  text.resize(text.find_last_not_of('=') + 1);
  return "sha256=" + text + "," + std::to_string(content.size());
}

}  // namespace nodestage

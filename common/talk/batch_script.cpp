#include "common/talk/batch_script.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "common/os/file.hpp"
#include "common/text/human.hpp"
#include "common/text/parsing.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_script_bytes = std::size_t{64} << 10;  // the most that is read of one
constexpr std::size_t k_line_width = 80;

std::string line_text(std::string_view line) {
  const std::size_t end = line.find_last_not_of(" \t\r");
  return shortened(printable(line.substr(0, end + 1)), k_line_width);
}

// As Slurm decides.
bool is_command(std::string_view line) {
  const std::size_t first = line.find_first_not_of(" \t\r\v\f");
  return first != std::string_view::npos && line[first] != '#';
}

// The command that `env` of a first line runs.
std::vector<std::string> without_env(std::vector<std::string> command) {
  if (command.empty() || last_part(command.front()) != "env") return command;
  const auto is_of_env = [](const std::string& word) {
    return word.starts_with('-') || word.find('=') != std::string::npos;
  };
  return {std::find_if_not(command.begin() + 1, command.end(), is_of_env), command.end()};
}

// Its options end with the first word that is none; one with 'o' at its end has a value.
bool has_login_option(const std::vector<std::string>& command) {
  for (std::size_t i = 1; i < command.size(); ++i) {
    const std::string& word = command[i];
    if (!word.starts_with('-') || word == "--" || word == "-") return false;
    if (word == "--login") return true;
    if (word.starts_with("--")) continue;
    if (word.find('l') != std::string::npos) return true;
    if (word.ends_with('o') || word.ends_with('O')) ++i;
  }
  return false;
}

bool is_login_shell(const std::vector<std::string>& command) {
  constexpr std::string_view k_shells[] = {"bash", "sh", "dash", "ksh", "zsh"};
  if (command.empty()) return false;
  const std::string program = last_part(command.front());
  const std::string name = program.starts_with('-') ? program.substr(1) : program;
  const bool is_shell =
      std::find(std::begin(k_shells), std::end(k_shells), name) != std::end(k_shells);
  return is_shell && (program != name || has_login_option(command));
}

std::vector<std::string> interpreter_of(const std::string& program) {
  if (program.find('/') == std::string::npos) return {};
  const std::string text = script_text(program);
  if (!text.starts_with("#!")) return {};
  return words_in(text.substr(2, text.find('\n') - 2));
}

}  // namespace

std::string script_text(const std::string& path) {
  const auto file = open_at(AT_FDCWD, path, k_open_source);
  struct stat info {};
  if (!file || ::fstat(file->get(), &info) != 0 || !S_ISREG(info.st_mode)) return {};
  std::string text(k_script_bytes, '\0');
  const auto count = pread_all(file->get(), std::as_writable_bytes(std::span(text)), 0);
  text.resize(count ? *count : 0);
  return text;
}

std::string ignored_directives(std::string_view script) {
  std::string command;
  std::string first;
  std::size_t others = 0;
  for (std::size_t number = 1; !script.empty(); ++number) {
    const std::string_view line = take_part(script, '\n');
    const auto place = [&] {
      return "line " + std::to_string(number) + " (" + line_text(line) + ")";
    };
    if (command.empty() && is_command(line)) command = place();
    const bool is_ours = line.starts_with("#SBATCH") && line.find("--stage-") != line.npos;
    // What it writes into another script is meant for that.
    if (line.find("<<") != line.npos) break;
    if (command.empty() || !is_ours) continue;
    first.empty() ? static_cast<void>(first = place()) : static_cast<void>(++others);
  }
  if (first.empty()) return {};
  return first + " of the script" +
         (others == 0 ? " has" : " and " + counted(others, "line", "lines") + " below it have") +
         " no effect: Slurm reads #SBATCH lines only above the first command, " + command +
         "; move it below them";
}

std::string login_shell_note(const std::vector<std::string>& command, const std::string& profile) {
  if (command.empty() || has_entry(AT_FDCWD, profile)) return {};
  if (!is_login_shell(command) && !is_login_shell(without_env(interpreter_of(command.front()))))
    return {};
  return "note: a login shell (-l) reads this node's profile, which can set PATH anew, without the "
         "staged environment; leave out -l, or begin with: export "
         "PATH=\"$NODESTAGE_VENV/bin:$PATH\"";
}

}  // namespace nodestage

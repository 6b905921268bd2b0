// nodestage: the command. Runs with its caller's rights, without privileges to drop. Asks this
// node's daemon on its unix socket, which shows users their own jobs and root all jobs, or does a
// job's work itself (`run`, with its own worker). One file per verb.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cli/base/conversation.hpp"
#include "cli/base/verbs.hpp"
#include "cli/cache/cache.hpp"
#include "cli/doctor/version_text.hpp"
#include "cli/pack/pack_directory.hpp"
#include "cli/pack/pack_image.hpp"
#include "cli/plan/plan.hpp"
#include "cli/push/push.hpp"
#include "common/build_info.hpp"
#include "common/text/human.hpp"
#include "common/text/parsing.hpp"

namespace nodestage {
namespace {

// Shows a verb's own help text in place of the library's.
class HelpText final : public CLI::Formatter {
 public:
  explicit HelpText(const char* text) : text_(text) {}
  std::string make_help(const CLI::App*, std::string, CLI::AppFormatMode) const override {
    return text_;
  }

 private:
  const char* text_;
};

void set_help(CLI::App& app, const char* text) { app.formatter(std::make_shared<HelpText>(text)); }

void add_request_options(CLI::App& verb, RequestTexts& texts) {
  const auto add = [&verb](const char* name, std::vector<std::string>& into) {
    verb.add_option(name, into)->allow_extra_args(false);
  };
  add("--stage-dataset", texts.datasets);
  add("--stage-venv", texts.venvs);
  add("--stage-out", texts.outputs);
  // For a job's steps. Accepted here, where the one process waits for everything.
  static std::string wait;
  verb.add_option("--stage-wait", wait)->check(CLI::IsMember({"all", "node", "none"}));
}

// Accepts other spellings: `help`, `help run`, `version`, `-V`.
void accept_other_spellings(std::vector<char*>& words) {
  static char help[] = "--help";
  static char version[] = "--version";
  if (words.size() < 2) return;
  const std::string_view first = words[1];
  if (first == "help") {
    words.erase(words.begin() + 1);
    words.resize(std::min<std::size_t>(words.size(), 2));
    words.push_back(help);
  } else if (first == "version" || first == "-V") {
    words[1] = version;
  }
}

// `--version --verbose`, which the library would read as two options.
bool asks_for_long_version(const std::vector<char*>& words) {
  return words.size() == 3 && std::strcmp(words[1], "--version") == 0 &&
         std::strcmp(words[2], "--verbose") == 0;
}

void print_long_version() {
  std::printf("%s\n%s", version_line().c_str(), facts_text(version_facts()).c_str());
}

// Splits off the command of `run`: the words from the first that is not an option, or after "--".
std::vector<std::string> split_command(int& argc, char** argv) {
  if (argc < 3 || std::strcmp(argv[1], "run") != 0) return {};
  for (int i = 2; i < argc; ++i) {
    const std::string_view word = argv[i];
    const bool is_end = word == "--";
    if (!is_end && word.starts_with('-')) {
      if (word.starts_with("--") && word.find('=') == std::string_view::npos && word != "--help")
        ++i;
      continue;
    }
    std::vector<std::string> words(argv + i + (is_end ? 1 : 0), argv + argc);
    argc = i;
    return words;
  }
  return {};
}

// For a missing value (a variable that is not set), the library would take the next word.
std::string option_without_value(int argc, char** argv) {
  for (int i = 2; i < argc; ++i) {
    std::string word = argv[i];
    if (word == "--") break;
    const bool is_empty = word.starts_with("--") && word.find('=') + 1 == word.size();
    if (is_empty || (word.starts_with("--stage-") && word.ends_with('='))) return word;
    const bool takes_next = word.starts_with("--stage-") && word.find('=') == std::string::npos;
    if (takes_next && (i + 1 == argc || argv[i + 1][0] == '\0' ||
                       std::string_view(argv[i + 1]).starts_with("--")))
      return word;
  }
  return "";
}

// A suggestion for an option that does not exist.
std::string meant_option(const CLI::App& verb) {
  const std::vector<std::string> extras = verb.remaining();
  if (extras.empty() || !extras.front().starts_with("--")) return "";
  std::vector<std::string> names;
  for (const CLI::Option* option : verb.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return did_you_mean(extras.front().substr(0, extras.front().find('=')),
                      {names.begin(), names.end()});
}

class Command {
 public:
  Command() : app_("nodestage") {
    app_.set_version_flag("--version", version_line());
    app_.require_subcommand(1);
    set_help(app_, help::k_command);
    add_run();
    add_plan();
    add_pack();
    add_status();
    add_nodes(*add_daemon_verb("held", help::k_held, held_, show_held), held_.nodes);
    add_recover();
    add_cache();
    add_wait();
    add_push();
    add_report();
    add_doctor();
  }

  int run(int argc, char** argv) {
    run_.command = split_command(argc, argv);
    if (const std::string word = option_without_value(argc, argv); !word.empty()) {
      fault(printable(word) + " has no value: is a variable in it not set?",
            std::string("`nodestage ") + argv[1] + " --help` shows how it is used.");
      return std::strcmp(argv[1], "run") == 0 ? k_not_run : k_wrong_usage;
    }
    try {
      app_.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      return usage(error, argc > 1 ? argv[1] : "");
    }
    return acts_.at(app_.get_subcommands().front())();
  }

 private:
  // Adds a verb, and what is done if it is the one that was typed.
  CLI::App* add(const char* name, const char* text, std::function<int()> act) {
    CLI::App* verb = app_.add_subcommand(name);
    set_help(*verb, text);
    acts_.emplace(verb, std::move(act));
    return verb;
  }

  // Adds one that asks the daemon at its --socket.
  template <typename Arguments, typename Act>
  CLI::App* add_daemon_verb(const char* name, const char* text, Arguments& arguments, Act act) {
    CLI::App* verb = add(name, text, [&arguments, act] { return act(arguments); });
    arguments.socket = k_socket_path;
    verb->add_option("--socket", arguments.socket);
    return verb;
  }

  // Sets `into` to `value` if the flag is given.
  template <typename Value>
  static void add_flag(CLI::App& verb, const char* name, Value& into, Value value) {
    verb.add_flag_callback(name, [&into, value] { into = value; });
  }

  // Returns the options that choose nodes.
  static std::vector<CLI::Option*> choose_nodes(CLI::App& verb, NodeChoice& choice) {
    auto* all = verb.add_flag("--all-nodes", choice.is_all);
    auto* some = verb.add_option("--node", choice.nodes)->excludes(all);
    return {all, some};
  }

  // The same, of a verb that answers such a choice on each node.
  static std::vector<CLI::Option*> add_nodes(CLI::App& verb, NodeChoice& choice) {
    verb.add_flag("--pieces", choice.is_pieces);
    return choose_nodes(verb, choice);
  }

  void add_run() {
    CLI::App* verb = add("run", help::k_run, [this] { return run_job(run_); });
    add_request_options(*verb, run_.texts);
    verb->add_option("--tmpdir", run_.tmpdir);
    verb->add_option("--worker", run_.worker);  // for tests
  }

  void add_plan() {
    CLI::App* verb = add_daemon_verb("plan", help::k_plan, plan_, plan);
    add_request_options(*verb, plan_.texts);
    verb->add_option("--array", plan_.array);
    add_flag(*verb, "--json", plan_.format, PlanFormat::json);
  }

  void add_pack() {
    CLI::App* verb = add("pack", help::k_pack, [this] { return run_pack(); });
    verb->add_option("DIR", pack_.directory);
    verb->add_option("-o,--output", pack_.output);
    verb->add_option("--image", image_);
    verb->add_option("--mtime", pack_.mtime);
    add_flag(*verb, "--force", pack_.overwrite, Overwrite::replace);
    add_flag(*verb, "--dereference", pack_.links, LinksOut::followed);
  }

  int run_pack() {
    if (!image_.empty() && !pack_.output.empty())
      return wrong_usage("--output and --image exclude each other", "Remove one of the two.");
    if (!pack_.directory.empty() && !pack_.output.empty()) return pack_directory(pack_);
    if (!pack_.directory.empty() && !image_.empty()) {
      pack_.output = image_;
      return pack_image(pack_);
    }
    const std::string missing = pack_.directory.empty() ? "DIR" : "--output";
    return wrong_usage(missing + " is required", "`nodestage pack --help` shows how it is used.");
  }

  void add_status() {
    CLI::App* verb = add_daemon_verb("status", help::k_status, status_, show_status);
    verb->add_option("JOBID", status_.job);
    verb->add_flag("--here", status_.here);
    verb->add_flag("--json", status_.json);
    verb->add_flag("--watch", status_.watch);
  }

  void add_recover() {
    CLI::App* verb = add_daemon_verb("recover", help::k_recover, recover_, recover);
    verb->add_option("JOBID", recover_.job)->required();
    verb->add_option("DIR", recover_.directory)->required();
    choose_nodes(*verb, recover_.nodes);
  }

  // Names are not the option's own values: `--drop "$NAME"` must never mean `--drop`.
  void add_cache() {
    CLI::App* verb = add_daemon_verb("cache", help::k_cache, cache_, cache);
    auto* drop = verb->add_flag("--drop", cache_.drop);
    verb->add_option("NAME", cache_.names)->needs(drop);
    auto* json = verb->add_flag("--json", cache_.json)->excludes(drop);
    for (CLI::Option* nodes : add_nodes(*verb, cache_.nodes)) nodes->excludes(drop)->excludes(json);
  }

  void add_wait() {
    CLI::App* verb = add_daemon_verb("wait", help::k_wait, wait_, wait_for_datasets);
    verb->add_option("NAME", wait_.names);
    verb->add_flag("--quiet", wait_.quiet);
  }

  void add_push() {
    CLI::App* verb = add_daemon_verb("push", help::k_push, push_, push_outputs);
    verb->add_option("SOURCE", push_.names);
    verb->add_flag("--no-wait", push_.no_wait);
  }

  void add_report() {
    CLI::App* verb = add_daemon_verb("report", help::k_report, report_, report);
    verb->add_option("JOBID", report_.job)->required();
    verb->add_option("--html", report_.html);
    verb->add_option("--node", report_.nodes);
    verb->add_flag("--json", report_.is_json);
    verb->add_flag("--here", report_.is_here);
    verb->add_flag("--pieces", report_.is_pieces);
  }

  void add_doctor() {
    CLI::App* verb = add_daemon_verb("doctor", help::k_doctor, doctor_, examine_host);
    verb->add_option("--host", doctor_.host)->check(CLI::IsMember({"login", "compute"}));
    verb->add_option("--report", doctor_.report);
  }

  // The library itself shows help and the version, which are not faults.
  int usage(const CLI::ParseError& error, const std::string& first_word) {
    if (error.get_exit_code() == 0) return app_.exit(error);
    const auto verbs = app_.get_subcommands();
    if (verbs.empty()) {
      return wrong_usage(
          first_word.empty()
              ? "no verb is given"
              : "'" + printable(first_word) + "' is not known" +
                    did_you_mean(first_word, {"run", "plan", "pack", "status", "wait", "push",
                                              "held", "recover", "cache", "report", "doctor"}),
          "`nodestage --help` lists the verbs.");
    }
    const std::string verb = verbs.front()->get_name();
    fault(error.what() + meant_option(*verbs.front()),
          "`nodestage " + verb + " --help` shows how it is used.");
    return verb == "run" ? k_not_run : k_wrong_usage;
  }

  CLI::App app_;
  std::map<const CLI::App*, std::function<int()>> acts_;
  RunArguments run_;
  PlanArguments plan_;
  PackArguments pack_;
  std::string image_;  // the output of `pack`, if that is an image
  StatusArguments status_;
  HeldArguments held_;
  RecoverArguments recover_;
  CacheArguments cache_;
  WaitArguments wait_;
  PushArguments push_;
  ReportArguments report_;
  DoctorArguments doctor_;
};

}  // namespace
}  // namespace nodestage

int main(int argc, char** argv) {
  try {
    std::vector<char*> words(argv, argv + argc);
    nodestage::accept_other_spellings(words);
    const bool is_long_version = nodestage::asks_for_long_version(words);
    if (is_long_version) nodestage::print_long_version();
    const int code = is_long_version
                         ? 0
                         : nodestage::Command().run(static_cast<int>(words.size()), words.data());
    // Only flushing can show that a disk is full.
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
    std::fprintf(stderr, "nodestage: the output could not be written\n");
    return code == 0 ? 1 : code;
  } catch (const std::exception& fault) {  // of a library
    std::fprintf(stderr, "nodestage: %s\n", fault.what());
    return 1;
  }
}

// nodestage: the command. Runs with its caller's rights, without privileges to drop. Asks this
// node's daemon on its unix socket, which shows users their own jobs and root all jobs, or does a
// job's work itself (`run`, with its own worker). One file per verb.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "cli/base/conversation.hpp"
#include "cli/cache/cache.hpp"
#include "cli/doctor/doctor.hpp"
#include "cli/doctor/version_text.hpp"
#include "cli/held/recover.hpp"
#include "cli/help_text.hpp"
#include "cli/pack/pack_directory.hpp"
#include "cli/plan/plan.hpp"
#include "cli/push/push.hpp"
#include "cli/report/report.hpp"
#include "cli/run/run.hpp"
#include "cli/status/status.hpp"
#include "common/build_info.hpp"
#include "common/text/did_you_mean.hpp"
#include "common/text/human.hpp"

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
    add_daemon_verbs();
    add_report();
    add_run();
    add_plan();
    add_pack();
  }

  int run(int argc, char** argv) {
    run_arguments_.command = split_command(argc, argv);
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
    if (run_->parsed()) return run_job(run_arguments_);
    if (plan_->parsed()) {
      if (is_json_) plan_arguments_.format = PlanFormat::json;
      plan_arguments_.socket = socket_;
      return plan(plan_arguments_);
    }
    if (pack_->parsed()) {
      if (is_forced_) pack_arguments_.overwrite = Overwrite::replace;
      if (is_dereferenced_) pack_arguments_.links = LinksOut::followed;
      return run_pack();
    }
    if (wait_->parsed()) {
      wait_arguments_.socket = socket_;
      return wait_for_datasets(wait_arguments_);
    }
    if (push_->parsed()) {
      push_arguments_.socket = socket_;
      return push_outputs(push_arguments_);
    }
    if (doctor_->parsed()) {
      doctor_arguments_.socket = socket_;
      return examine_host(doctor_arguments_);
    }
    if (held_->parsed()) {
      held_arguments_.socket = socket_;
      return show_held(held_arguments_);
    }
    if (cache_->parsed()) {
      cache_arguments_.socket = socket_;
      return cache(cache_arguments_);
    }
    if (status_->parsed()) {
      status_arguments_.socket = socket_;
      return show_status(status_arguments_);
    }
    if (report_->parsed()) {
      report_arguments_.socket = socket_;
      return report(report_arguments_);
    }
    recover_arguments_.socket = socket_;
    return recover(recover_arguments_);
  }

 private:
  CLI::App* add_daemon_verb(const char* name, const char* text) {
    auto* added = app_.add_subcommand(name);
    added->add_option("--socket", socket_);
    set_help(*added, text);
    return added;
  }

  void add_daemon_verbs() {
    status_ = add_daemon_verb("status", help::k_status);
    status_->add_option("JOBID", status_arguments_.job);
    status_->add_flag("--here", status_arguments_.here);
    status_->add_flag("--json", status_arguments_.json);
    status_->add_flag("--watch", status_arguments_.watch);

    held_ = add_daemon_verb("held", help::k_held);
    add_nodes(*held_, held_arguments_.nodes);

    recover_ = add_daemon_verb("recover", help::k_recover);
    recover_->add_option("JOBID", recover_arguments_.job)->required();
    recover_->add_option("DIR", recover_arguments_.directory)->required();
    choose_nodes(*recover_, recover_arguments_.nodes);

    add_cache();

    wait_ = add_daemon_verb("wait", help::k_wait);
    wait_->add_option("NAME", wait_arguments_.names);
    wait_->add_flag("--quiet", wait_arguments_.quiet);

    push_ = add_daemon_verb("push", help::k_push);
    push_->add_option("SOURCE", push_arguments_.names);
    push_->add_flag("--no-wait", push_arguments_.no_wait);

    doctor_ = add_daemon_verb("doctor", help::k_doctor);
    doctor_->add_option("--host", doctor_arguments_.host)
        ->check(CLI::IsMember({"login", "compute"}));
    doctor_->add_option("--report", doctor_arguments_.report);
  }

  // Names are not the option's own values: `--drop "$NAME"` must never mean `--drop`.
  void add_cache() {
    cache_ = add_daemon_verb("cache", help::k_cache);
    auto* drop = cache_->add_flag("--drop", cache_arguments_.drop);
    cache_->add_option("NAME", cache_arguments_.names)->needs(drop);
    auto* json = cache_->add_flag("--json", cache_arguments_.json)->excludes(drop);
    for (CLI::Option* nodes : add_nodes(*cache_, cache_arguments_.nodes))
      nodes->excludes(drop)->excludes(json);
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

  void add_report() {
    report_ = add_daemon_verb("report", help::k_report);
    report_->add_option("JOBID", report_arguments_.job)->required();
    report_->add_option("--html", report_arguments_.html);
    report_->add_option("--node", report_arguments_.nodes);
    report_->add_flag("--json", report_arguments_.is_json);
    report_->add_flag("--here", report_arguments_.is_here);
    report_->add_flag("--pieces", report_arguments_.is_pieces);
  }

  void add_run() {
    run_ = app_.add_subcommand("run");
    add_request_options(*run_, run_arguments_.texts);
    run_->add_option("--tmpdir", run_arguments_.tmpdir);
    run_->add_option("--worker", run_arguments_.worker);  // for tests
    set_help(*run_, help::k_run);
  }

  void add_plan() {
    plan_ = app_.add_subcommand("plan");
    add_request_options(*plan_, plan_arguments_.texts);
    plan_->add_flag("--json", is_json_);
    plan_->add_option("--socket", socket_);
    set_help(*plan_, help::k_plan);
  }

  void add_pack() {
    pack_ = app_.add_subcommand("pack");
    pack_->add_option("DIR", pack_arguments_.directory);
    pack_->add_option("-o,--output", pack_arguments_.output);
    pack_->add_option("--mtime", pack_arguments_.mtime);
    pack_->add_flag("--force", is_forced_);
    pack_->add_flag("--dereference", is_dereferenced_);
    set_help(*pack_, help::k_pack);
  }

  int run_pack() {
    const PackArguments& wanted = pack_arguments_;
    if (!wanted.directory.empty() && !wanted.output.empty()) return pack_directory(wanted);
    const std::string missing = wanted.directory.empty() ? "DIR" : "--output";
    return wrong_usage(missing + " is required", "`nodestage pack --help` shows how it is used.");
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
    const CLI::App* verb = verbs.front();
    fault(error.what() + meant_option(*verb),
          "`nodestage " + verb->get_name() + " --help` shows how it is used.");
    return verb == run_ ? k_not_run : k_wrong_usage;
  }

  CLI::App app_;
  std::string socket_ = k_socket_path;
  StatusArguments status_arguments_;
  RecoverArguments recover_arguments_;
  WaitArguments wait_arguments_;
  PushArguments push_arguments_;
  DoctorArguments doctor_arguments_;
  CacheArguments cache_arguments_;
  HeldArguments held_arguments_;
  ReportArguments report_arguments_;
  RunArguments run_arguments_;
  PlanArguments plan_arguments_;
  bool is_json_ = false;
  PackArguments pack_arguments_;
  bool is_forced_ = false;
  bool is_dereferenced_ = false;
  CLI::App* status_ = nullptr;
  CLI::App* held_ = nullptr;
  CLI::App* cache_ = nullptr;
  CLI::App* recover_ = nullptr;
  CLI::App* wait_ = nullptr;
  CLI::App* push_ = nullptr;
  CLI::App* doctor_ = nullptr;
  CLI::App* report_ = nullptr;
  CLI::App* run_ = nullptr;
  CLI::App* plan_ = nullptr;
  CLI::App* pack_ = nullptr;
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

#include "daemon/root/held/power_keeper.hpp"

#include <fcntl.h>

#include <sstream>

#include "common/os/file.hpp"
#include "common/text/human.hpp"
#include "daemon/root/basis/log.hpp"
#include "daemon/root/basis/textfile.hpp"

namespace nodestage {
namespace {

// A restart of slurmctld takes the list from slurm.conf.
constexpr std::chrono::seconds k_list_again{300};
constexpr std::chrono::seconds k_retry{60};
constexpr std::size_t k_shown = 300;
constexpr std::string_view k_listed = "listed";
constexpr std::string_view k_notified = "notified";

std::string file_of(const Config& config) { return config.daemon.state_dir + "/kept-powered"; }

// The value of a line "NAME = VALUE" of `scontrol show config`; "" if it is not there or "(null)".
std::string value_of(const std::string& name, const std::string& output) {
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string first;
    std::string equals;
    std::string value;
    words >> first >> equals >> value;
    if (first == name && equals == "=") return value == "(null)" ? "" : value;
  }
  return {};
}

bool has_line(const std::string& wanted, const std::string& output) {
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (line == wanted) return true;
  }
  return false;
}

}  // namespace

PowerKeeper::PowerKeeper(const Places& places) : at_(places) {
  const auto text = read_file(AT_FDCWD, file_of(at_.config), 4096);
  if (!text) return;
  std::istringstream words(*text);
  words >> said_.node;
  for (std::string word; words >> word;) {
    if (word == k_listed) said_.is_listed = true;
    if (word == k_notified) said_.is_notified = true;
  }
}

void PowerKeeper::look() { look_after(std::chrono::seconds(0)); }

void PowerKeeper::look_after(std::chrono::seconds pause) {
  const auto& hold = at_.config.hold;
  if (!hold.keep_powered && hold.notify.empty() && !said_.is_listed && !said_.is_notified) return;
  if (timer_) at_.loop.cancel(*timer_);
  timer_ = at_.loop.after(pause, [this] {
    timer_.reset();
    act();
  });
}

std::string PowerKeeper::node_that_holds() const {
  for (const auto& [key, record] : at_.table.all()) {
    if (record.in_hold || record.hold.since != 0) return record.begin.node;
  }
  return {};
}

// One thing at a time; what ends it looks again.
void PowerKeeper::act() {
  const auto now = at_.loop.now();
  if (scontrol_.busy()) return;
  if (now < retry_due_)
    return look_after(std::chrono::ceil<std::chrono::seconds>(retry_due_ - now));
  const std::string node = node_that_holds();
  const auto& hold = at_.config.hold;
  if (node.empty()) {
    if (said_.is_listed) return take_from_list();
    if (said_.is_notified) return notify("end", said_.node);
    return;
  }
  if (!hold.notify.empty() && !said_.is_notified) return notify("begin", node);
  if (!hold.keep_powered) return;
  if (now >= list_due_) return list(node);
  look_after(std::chrono::ceil<std::chrono::seconds>(list_due_ - now));
}

void PowerKeeper::list(const std::string& node) {
  run(at_.config.slurm.scontrol, {"show", "config"}, [this, node](const Scontrol::Output& output) {
    if (!output.succeeded) return fails("scontrol show config", output);
    const std::string names = value_of("SuspendExcNodes", output.text);
    if (value_of("SuspendProgram", output.text).empty()) {  // Slurm switches nothing off
      list_due_ = at_.loop.now() + k_list_again;
      return look();
    }
    if (names.empty()) return add_to_list(node);
    list_unless_named(node, names);
  });
}

void PowerKeeper::list_unless_named(const std::string& node, const std::string& names) {
  run(at_.config.slurm.scontrol, {"show", "hostnames", names},
      [this, node](const Scontrol::Output& output) {
        if (!output.succeeded) return fails("scontrol show hostnames", output);
        if (!has_line(node, output.text)) return add_to_list(node);
        list_due_ = at_.loop.now() + k_list_again;
        look();
      });
}

// It is noted first: what a daemon that dies has added is taken back.
void PowerKeeper::add_to_list(const std::string& node) {
  said_.node = node;
  said_.is_listed = true;
  note();
  run(at_.config.slurm.scontrol, {"update", "SuspendExcNodes+=" + node},
      [this](const Scontrol::Output& output) {
        if (!output.succeeded)
          return fails("this node cannot be kept powered while it holds results", output);
        list_due_ = at_.loop.now() + k_list_again;
        log::info("this node holds results, and is in SuspendExcNodes until they have left");
        look();
      });
}

void PowerKeeper::take_from_list() {
  run(at_.config.slurm.scontrol, {"update", "SuspendExcNodes-=" + said_.node},
      [this](const Scontrol::Output& output) {
        if (!output.succeeded)
          return fails("this node cannot be taken out of SuspendExcNodes", output);
        said_.is_listed = false;
        list_due_ = {};
        log::info("this node holds no results any more, and is no longer in SuspendExcNodes");
        said();
      });
}

void PowerKeeper::notify(const std::string& word, const std::string& node) {
  const std::string program = at_.config.hold.notify;
  // The setting was removed meanwhile: there is nobody to notify.
  if (program.empty()) {
    said_.is_notified = false;
    return said();
  }
  run(program, {word, node}, [this, program, word, node](const Scontrol::Output& output) {
    if (!output.succeeded) return fails(program + " " + word + " (hold.notify)", output);
    said_.node = node;
    said_.is_notified = word == "begin";
    said();
  });
}

void PowerKeeper::run(const std::string& program, std::vector<std::string> arguments,
                      OnOutput on_output) {
  const Status begun = scontrol_.run_program(program, std::move(arguments), std::move(on_output));
  if (!begun) fails(program, {begun.error().what, false});
}

void PowerKeeper::said() {
  note();
  look();
}

void PowerKeeper::note() const {
  const std::string path = file_of(at_.config);
  std::string text = said_.node;
  if (said_.is_listed) text.append(" ").append(k_listed);
  if (said_.is_notified) text.append(" ").append(k_notified);
  if (const Status noted = replace_textfile(path, text + "\n"); !noted)
    log::error("{}", noted.error().what);
}

void PowerKeeper::fails(const std::string& what, const Scontrol::Output& output) {
  log::warn("{}: {}", what,
            output.text.empty()
                ? "no answer in time"
                : printable(shortened(output.text.substr(0, output.text.find('\n')), k_shown)));
  retry_due_ = at_.loop.now() + k_retry;
  look();
}

}  // namespace nodestage

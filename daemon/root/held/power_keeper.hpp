// PowerKeeper: keeps this node from being switched off while it holds results: a node of a cloud
// that is switched off loses them. By Slurm's SuspendExcNodes (hold.keep_powered, Slurm 23.02 and
// later), by a program of the site's (hold.notify), or both.
//
// What was said to either is in the file kept-powered in daemon.state_dir, so that the next daemon
// takes it back. A node that the site itself has listed in SuspendExcNodes stays listed.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/settings/config.hpp"
#include "daemon/root/basis/loop.hpp"
#include "daemon/root/slurm/scontrol.hpp"
#include "daemon/root/table/job_table.hpp"

namespace nodestage {

class PowerKeeper {
 public:
  struct Places {
    Loop& loop;
    const Config& config;
    const JobTable& table;
  };
  explicit PowerKeeper(const Places& places);
  PowerKeeper(const PowerKeeper&) = delete;
  PowerKeeper& operator=(const PowerKeeper&) = delete;

  // Looks at what is held and at the settings, one of which may have changed. Acts later, from the
  // loop.
  void look();

 private:
  struct Said {
    std::string node;          // the name under which it was said
    bool is_listed = false;    // by this daemon, in SuspendExcNodes
    bool is_notified = false;  // hold.notify was called with "begin"
  };
  using OnOutput = std::function<void(const Scontrol::Output&)>;

  void act();
  [[nodiscard]] std::string node_that_holds() const;
  void list(const std::string& node);
  void list_unless_named(const std::string& node, const std::string& names);
  void add_to_list(const std::string& node);
  void take_from_list();
  void notify(const std::string& word, const std::string& node);
  void run(const std::string& program, std::vector<std::string> arguments, OnOutput on_output);
  void said();
  void note() const;
  void fails(const std::string& what, const Scontrol::Output& output);
  void look_after(std::chrono::seconds pause);

  Places at_;
  Scontrol scontrol_{at_.loop, at_.config};
  Said said_;
  std::optional<Loop::TimerId> timer_;
  Clock::time_point list_due_{};  // when SuspendExcNodes is to be looked at again
  Clock::time_point retry_due_{};
};

}  // namespace nodestage

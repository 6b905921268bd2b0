// MetricsFile: keeps the file of `metrics.textfile` up to date. Every 5 s it compares the figures,
// and replaces the file (by a rename) when one of the daemon's own has changed, or once a minute.
// Without the setting it does nothing.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "common/settings/config.hpp"
#include "daemon/root/basis/loop.hpp"
#include "daemon/root/metrics/metrics.hpp"

namespace nodestage {

class MetricsFile {
 public:
  using Source = std::function<Metrics()>;
  MetricsFile(Loop& loop, const Config& config, Source source)
      : loop_(loop), config_(config), source_(std::move(source)) {}

  // Call it at the start and after each reload. Removes the file of a path that is no longer set.
  void settings_changed();

 private:
  void look();
  void write(const MetricsText& text);

  Loop& loop_;
  const Config& config_;
  Source source_;
  std::string path_;  // "": off
  std::string written_;
  Clock::time_point written_at_{};
  std::optional<Loop::TimerId> timer_;
  bool has_failed_ = false;
};

}  // namespace nodestage

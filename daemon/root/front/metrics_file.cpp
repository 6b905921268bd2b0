#include "daemon/root/front/metrics_file.hpp"

#include <unistd.h>

#include "daemon/root/basis/log.hpp"
#include "daemon/root/basis/textfile.hpp"

namespace nodestage {
namespace {

constexpr std::chrono::seconds k_metrics_interval{5};
constexpr std::chrono::seconds k_oldest{60};

}  // namespace

void MetricsFile::settings_changed() {
  if (config_.metrics.textfile == path_) return;
  if (!path_.empty()) ::unlink(path_.c_str());
  loop_.cancel(timer_);
  path_ = config_.metrics.textfile;
  written_.clear();
  has_failed_ = false;
  if (!path_.empty()) look();
}

void MetricsFile::look() {
  timer_ = loop_.after(k_metrics_interval, [this] { look(); });
  const MetricsText text = metrics_text(source_());
  if (text.own != written_ || Clock::now() - written_at_ >= k_oldest) write(text);
}

void MetricsFile::write(const MetricsText& text) {
  const Status replaced = replace_textfile(path_, text.own + text.disk);
  if (!replaced && !has_failed_) {
    log::warn("metrics.textfile cannot be written (logged once): {}", replaced.error().what);
  }
  has_failed_ = !replaced;
  if (!replaced) return;
  written_ = text.own;
  written_at_ = Clock::now();
}

}  // namespace nodestage

#include "daemon/root/metrics_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

#include "common/os/file.hpp"
#include "daemon/root/log.hpp"

namespace nodestage {
namespace {

constexpr std::chrono::seconds k_look{5};
constexpr std::chrono::seconds k_oldest{60};

}  // namespace

Status replace_textfile(const std::string& path, std::string_view text) {
  const std::size_t name = path.rfind('/') + 1;
  // node_exporter reads what ends in .prom.
  const std::string temporary = path.substr(0, name) + "." + path.substr(name) + ".new";
  ::unlink(temporary.c_str());
  TRY_ASSIGN(const Fd fd, open_at(AT_FDCWD, temporary, O_WRONLY | O_CREAT | O_EXCL, 0644));
  if (const Status written = write_all(fd.get(), text); !written) {
    ::unlink(temporary.c_str());
    return Error{written.error().code, temporary + ": " + written.error().what};
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) return system_error(path);
  return {};
}

void MetricsFile::settings_changed() {
  if (config_.metrics.textfile == path_) return;
  if (!path_.empty()) ::unlink(path_.c_str());
  if (timer_) loop_.cancel(*timer_);
  timer_.reset();
  path_ = config_.metrics.textfile;
  written_.clear();
  has_failed_ = false;
  if (!path_.empty()) look();
}

void MetricsFile::look() {
  timer_ = loop_.after(k_look, [this] { look(); });
  const MetricsText text = metrics_text(source_());
  if (text.own != written_ || Clock::now() - written_at_ >= k_oldest) write(text);
}

void MetricsFile::write(const MetricsText& text) {
  const Status replaced = replace_textfile(path_, text.own + text.disk);
  if (!replaced && !has_failed_) {
    log::warn("metrics.textfile cannot be written (said once): {}", replaced.error().what);
  }
  has_failed_ = !replaced;
  if (!replaced) return;
  written_ = text.own;
  written_at_ = Clock::now();
}

}  // namespace nodestage

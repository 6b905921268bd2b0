// PackWatch: what `nodestage pack` does on its own thread while others work: it shows their
// progress, and handles signals.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "cli/base/signals.hpp"
#include "common/talk/task_voice.hpp"

namespace nodestage {

class PackWatch {
 public:
  // `name`: of what is packed. The signals are borrowed.
  PackWatch(const std::string& name, Signals& signals);

  // Waits for a short time. True: a signal came that ends all, which signal() returns from then on.
  bool was_stopped();
  [[nodiscard]] int signal() const { return signal_; }

  // Shows `progress`, in which the reader or writer has set the bytes and the files.
  void show(Progress progress);
  void clear() { voice_.clear(); }
  [[nodiscard]] std::uint64_t elapsed_ms() const;

 private:
  const std::string name_;
  Signals& signals_;
  TaskVoice voice_;
  const Deadline begun_ = Clock::now();
  int signal_ = 0;
};

}  // namespace nodestage

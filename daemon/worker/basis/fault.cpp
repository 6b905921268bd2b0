#include "daemon/worker/basis/fault.hpp"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <new>

#include "common/text/human.hpp"
#include "common/wire/worker_order.hpp"

namespace nodestage {

Error fault(int code, std::string cause, std::string_view advice) {
  return Error{code, std::move(cause), std::string(advice)};
}

Error password_fault(std::string whose) {
  return fault(0, std::move(whose) + "is protected with a password, which a job cannot type",
               "Make it again without a password");
}

Error with_prefix(Error error, std::string_view prefix) {
  error.what.insert(0, prefix);
  return error;
}

Error with_suffix(Error error, std::string_view suffix) {
  error.what += suffix;
  return error;
}

Error with_advice(Error error, std::string_view advice) {
  // What a program has printed comes with all that is to be said.
  if (error.advice.empty() && error.lines.empty()) error.advice = advice;
  return error;
}

void add_note(std::string& notes, const std::string& note) {
  if (!note.empty()) notes += (notes.empty() ? "" : "; ") + note;
}

Error thrown(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) == nullptr) return Error{0, error.what()};
  return fault(ENOMEM, "the worker ran out of memory",
               "Tell your site's support: its limit is worker.memory in nodestaged.toml");
}

std::string shown(std::string_view name) { return printable(shortened(name, 600)); }

Error stopped() { return Error{ECANCELED, "stopped"}; }

bool is_stopped(const Error& error) { return error.code == ECANCELED; }

void lower_priority() {
  static_cast<void>(::setpriority(PRIO_PROCESS, 0, 19));
  // Newer releases of <linux/ioprio.h> are not valid C++; the values are those of ioprio_set(2).
  constexpr int k_this_process = 1;
  constexpr int k_idle = 3 << 13;
  static_cast<void>(::syscall(SYS_ioprio_set, k_this_process, 0, k_idle));
}

namespace {

void write_line(const std::string& mark, std::string_view text) {
  const std::string line = mark + printable(shortened(text, 2000), Newlines::join) + "\n";
  // A log that cannot be written is not a reason to fail a job.
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace

void log_line(std::string_view text) { write_line("", text); }
void log_error(std::string_view text) { write_line(k_error_mark, text); }

}  // namespace nodestage

// OutputReport: what is reported about one --stage-out item, while it runs and at its end.
#pragma once

#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/request/request.hpp"
#include "common/result.hpp"
#include "common/wire/status_file.hpp"
#include "daemon/worker/budget/meter.hpp"

namespace nodestage {

// Explains why an entry of a result cannot be read, where errno alone would mislead.

// Codes that stand for causes, so that the target is not taken for the culprit:
inline constexpr int k_foreign_entry = EUSERS;   // EACCES for an entry of another user
inline constexpr int k_ended_mount = EREMCHG;    // ENOTCONN for a FUSE mount
inline constexpr int k_missing_source = ENOMSG;  // what was meant may have another name

// Returns the fault with what is known of the entry; `info` is zero if that is nothing.
Error source_fault(const Error& fault, const struct stat& info);

// Writes the item's record to the status file: at most ten times a second while counting, and at
// every change of state. A status file that cannot be written stops nothing.
class OutputReport {
 public:
  // `rate` limits what is written to the target; borrowed; null: no limit.
  OutputReport(int status_fd, std::size_t index, const OutputItem& item, RateLimit* rate = nullptr);

  void begin(std::string_view what, std::string_view destination);
  // Of an item that may not begin: the target with its patterns expanded.
  void name_target(const std::string& path);
  // Forgets what was found of all entries, which are looked at once more.
  void begin_again();
  // The same, and nothing has been delivered.
  void begin_anew();
  // Both wait until the rate limit lets the bytes pass.
  void add_bytes(std::uint64_t bytes);  // of copied data: read and written
  void set_written(std::uint64_t bytes);
  void set_total(std::uint64_t bytes);  // that will be read, as far as is known
  void add_read(std::uint64_t bytes);
  void add_file();  // of an archive
  void add_copied(const struct stat& info);
  void add_unchanged(const struct stat& info);  // an entry that is not copied, and is in the target
  // How many deliveries have brought what is in the target, with this one.
  void set_deliveries(std::uint64_t count) { record_.deliveries = count; }
  // How many files were removed in the target by now; also after the end.
  void set_pruned(std::uint64_t count);
  void add_unsettled(std::string_view path);  // an entry that is being written
  // A file that became longer while it was read.
  void add_growing(std::string_view path) { growing_.add(path); }
  void add_special() { ++specials_; }  // a socket, FIFO, or device that was left out
  // Counts a link in whose place what it leads to was delivered, or what was changed of that.
  void add_followed(std::string_view path, bool is_whole);
  // A link that leads to what contains the output, or to too much of what was staged.
  void add_loop(std::string_view path) { loops_.add(path); }
  void add_staged(std::string_view path) { staged_.add(path); }
  void add_kept_directory(std::string_view path);  // a link that is a directory in the target
  void add_note(std::string_view text);            // a warning: a sentence without a full stop

  // Adds an entry that could not be delivered; `path` names it below the source. Entries after the
  // first few are only counted.
  void add_fault(std::string_view path, const Error& error);

  [[nodiscard]] std::uint64_t faults() const { return faults_; }
  [[nodiscard]] std::uint64_t files() const { return record_.files; }  // that were copied
  [[nodiscard]] std::uint64_t unsettled() const { return unsettled_.count; }
  [[nodiscard]] int first_code() const { return first_code_; }  // errno of the first fault

  void skip(std::string_view why);
  // Notes what does not exist, of which the user is notified.
  void add_missing(std::string_view what);
  // Fails the item since something of its source does not exist. If it fails for nothing else, no
  // further try can repair it.
  void lack(const Error& why) { lack_ = why; }
  // Like add_missing() for a whole source, which is skipped.
  void miss(std::string_view why);
  // Ends as failed if there were faults or `delivered` is one, otherwise as done.
  void finish(const Status& delivered);
  // Ends as failed, in a way that no further try can repair.
  void give_up(const Error& why);

  [[nodiscard]] ItemState state() const { return state_of(record_); }
  [[nodiscard]] std::string note() const { return field_text(record_.note); }
  [[nodiscard]] std::string source() const { return field_text(record_.source); }
  [[nodiscard]] std::string destination() const { return field_text(record_.destination); }

 private:
  using Clock = std::chrono::steady_clock;
  void note_code(int code);
  void add_up_to_date(const struct stat& info);
  void tick();
  void publish();
  void end(ItemState state);
  void slow_down(std::uint64_t written);
  void note_links();

  int status_fd_;
  std::size_t index_;
  RateLimit* rate_;
  ItemRecord record_{};
  Clock::time_point started_ = Clock::now();
  Clock::time_point published_{};
  // Entries of one kind, of which the first few are named.
  struct Tally {
    std::uint64_t count = 0;
    std::string names = {};
    void add(std::string_view path);
    [[nodiscard]] std::string text() const;
  };
  std::uint64_t faults_ = 0;
  std::uint64_t specials_ = 0;
  Tally unsettled_;
  Tally growing_;
  Tally followed_;
  Tally partly_;
  Tally loops_;
  Tally staged_;
  Tally kept_;
  int first_code_ = 0;
  bool are_users_ = true;  // is_users_fault() of all faults
  std::string fault_text_;
  std::string notes_;
  std::optional<Error> lack_;
};

// What a copy in the target keeps of its source's times and modes.

// Returns whether `there` is `time`, or as much of it as a file system keeps.
bool is_copied_time(const timespec& there, const timespec& time);

// Some FUSE and CIFS mounts keep neither modes nor times. The first refusal becomes a note of the
// report, and the copies go on.
class KeptAttributes {
 public:
  explicit KeptAttributes(OutputReport& report) : report_(report) {}

  // Takes `code`, the errno of the call that should set `what`, or 0.
  Status keep(const char* what, int code);

 private:
  OutputReport& report_;
  bool is_noted_ = false;
};

}  // namespace nodestage

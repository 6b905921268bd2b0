#include "daemon/worker/deliver/output_report.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>

#include "common/os/wall_clock.hpp"
#include "common/text/human.hpp"
#include "daemon/worker/tree/file_data.hpp"

namespace nodestage {

Error source_fault(const Error& fault, const struct stat& info) {
  if (fault.code == ENOTCONN)
    return Error{k_ended_mount, "is a FUSE mount, and the program that served it has exited"};
  const bool is_foreign = info.st_mode != 0 && info.st_uid != ::geteuid();
  if (fault.code != EACCES || !is_foreign) return fault;
  return Error{k_foreign_entry,
               "is not readable for you: it belongs to uid " + std::to_string(info.st_uid)};
}

namespace {

// Returns whether a fault with this code is one that the owner of the results can mend, at the
// target or in the next job, without an administrator.
bool is_users_fault(int code) {
  constexpr int k_codes[] = {
      EACCES, EPERM,           EROFS,         ENOSPC,           EDQUOT,       EFBIG, ENOENT,
      EEXIST, EISDIR,          ENOTDIR,       ENOTEMPTY,        ENAMETOOLONG, ELOOP, EXDEV,
      EINVAL, k_foreign_entry, k_ended_mount, k_missing_source, k_was_changed};
  return std::find(std::begin(k_codes), std::end(k_codes), code) != std::end(k_codes);
}

constexpr std::uint64_t k_named_faults = 3;
constexpr std::uint64_t k_named_entries = 5;
constexpr std::atomic<bool> k_never = false;
constexpr std::size_t k_path_width = 200;

std::string shown(std::string_view path, std::size_t width) {
  return shortened(printable(path), width);
}

void append_sentence(std::string& text, std::string_view sentence) {
  if (!text.empty() && !sentence.empty()) text += "; ";
  text += sentence;
}

}  // namespace

OutputReport::OutputReport(int status_fd, std::size_t index, const OutputItem& item,
                           RateLimit* rate)
    : status_fd_(status_fd), index_(index), rate_(rate) {
  set_field(record_.source, shown(item.source, sizeof record_.source - 1));
  set_field(record_.destination, shown(item.target, sizeof record_.destination - 1));
  publish();
}

void OutputReport::name_target(const std::string& path) {
  set_field(record_.destination, shown(path, sizeof record_.destination - 1));
}

void OutputReport::begin(std::string_view what, std::string_view destination) {
  started_ = Clock::now();
  record_.begun_ms = wall_ms(started_);
  record_.state = static_cast<std::uint32_t>(ItemState::working);
  set_field(record_.what, what);
  set_field(record_.destination, shown(destination, sizeof record_.destination - 1));
  publish();
}

void OutputReport::begin_again() {
  faults_ = specials_ = 0;
  record_.files_in_all = record_.bytes_in_all = 0;
  are_users_ = true;
  unsettled_ = growing_ = followed_ = partly_ = loops_ = staged_ = kept_ = {};
  first_code_ = 0;
  fault_text_.clear();
  notes_.clear();
}

void OutputReport::begin_anew() {
  begin_again();
  record_.files = record_.bytes_read = record_.bytes_written = 0;
}

void OutputReport::add_bytes(std::uint64_t bytes) {
  record_.bytes_written += bytes;
  add_read(bytes);
  slow_down(bytes);
}

void OutputReport::set_written(std::uint64_t bytes) {
  const std::uint64_t before = std::exchange(record_.bytes_written, bytes);
  if (bytes > before) slow_down(bytes - before);
}

void OutputReport::set_total(std::uint64_t bytes) {
  record_.bytes_total = bytes;
  publish();
}

void OutputReport::slow_down(std::uint64_t written) {
  if (rate_ != nullptr) rate_->take(written, k_never, k_never);
}

void OutputReport::add_read(std::uint64_t bytes) {
  record_.bytes_read += bytes;
  tick();
}

void OutputReport::add_file() {
  ++record_.files;
  tick();
}

// The names of a file with several links have its size together.
void OutputReport::add_up_to_date(const struct stat& info) {
  ++record_.files_in_all;
  if (S_ISREG(info.st_mode))
    record_.bytes_in_all +=
        static_cast<std::uint64_t>(info.st_size) / std::max<nlink_t>(1, info.st_nlink);
}

void OutputReport::add_copied(const struct stat& info) {
  add_up_to_date(info);
  add_file();
}

void OutputReport::add_unchanged(const struct stat& info) {
  add_up_to_date(info);
  tick();
}

void OutputReport::Tally::add(std::string_view path) {
  if (count++ >= k_named_entries) return;
  if (!names.empty()) names += ", ";
  names += shown(path, k_path_width);
}

std::string OutputReport::Tally::text() const {
  if (count <= k_named_entries) return names;
  return names + " and " + human_count(count - k_named_entries) + " more";
}

void OutputReport::set_pruned(std::uint64_t count) {
  if (std::exchange(record_.pruned, count) != count) publish();
}

void OutputReport::add_unsettled(std::string_view path) {
  unsettled_.add(path);
  tick();
}

void OutputReport::add_followed(std::string_view path, bool is_whole) {
  (is_whole ? followed_ : partly_).add(path);
}

void OutputReport::add_kept_directory(std::string_view path) {
  kept_.add(path);
  tick();
}

void OutputReport::add_note(std::string_view text) { append_sentence(notes_, text); }

void OutputReport::note_code(int code) { are_users_ = are_users_ && is_users_fault(code); }

void OutputReport::add_fault(std::string_view path, const Error& error) {
  if (faults_++ == 0) first_code_ = error.code;
  note_code(error.code);
  if (faults_ <= k_named_faults) {
    append_sentence(fault_text_, shown(path, k_path_width) + ": " + error.text());
  }
}

void OutputReport::skip(std::string_view why) {
  add_note(why);
  end(ItemState::skipped);
}

void OutputReport::add_missing(std::string_view what) {
  record_.flags |= k_item_missing;
  add_note(what);
}

void OutputReport::miss(std::string_view why) {
  add_missing(why);
  end(ItemState::skipped);
}

void OutputReport::finish(const Status& delivered) {
  std::string text;
  if (faults_ > 0) {
    text = counted(faults_, "entry", "entries") + " could not be delivered: " + fault_text_;
    if (faults_ > k_named_faults)
      text += "; and " + human_count(faults_ - k_named_faults) + " more";
  }
  const auto fail = [&](int code, const std::string& why) {
    if (first_code_ == 0) first_code_ = code;
    note_code(code);
    append_sentence(text, why);
  };
  if (!delivered) fail(delivered.error().code, printable(delivered.error().text()));
  if (lack_ && text.empty()) record_.flags |= k_item_final;
  if (lack_) fail(lack_->code, lack_->what);
  if (specials_ > 0) {
    add_note(counted(specials_, "socket, FIFO or device was", "sockets, FIFOs or devices were") +
             " left out");
  }
  note_links();
  if (growing_.count > 0) {
    add_note(counted(growing_.count, "file was", "files were") +
             " still being written, and what was in " + (growing_.count == 1 ? "it" : "each") +
             " when it was opened was delivered: " + growing_.text());
  }
  if (unsettled_.count > 0) {
    record_.flags |= k_item_unsettled;
    add_note(counted(unsettled_.count, "file was", "files were") + " being written and " +
             (unsettled_.count == 1 ? "is" : "are") +
             " left for the next delivery: " + unsettled_.text());
  }
  const bool failed = !text.empty();
  if (failed && are_users_) record_.flags |= k_item_users;
  if (failed && !notes_.empty()) text += "; ";
  notes_.insert(0, text);
  end(failed ? ItemState::failed : ItemState::done);
}

void OutputReport::note_links() {
  const auto note = [this](const Tally& tally, const char* one, const char* several,
                           const std::string& what) {
    if (tally.count > 0) add_note(counted(tally.count, one, several) + what + tally.text());
  };
  note(followed_, "link leads", "links lead",
       " elsewhere in the job's directory, and what is there was delivered instead: ");
  note(partly_, "link leads", "links lead",
       " to what was staged, and only what was changed or added there was delivered: ");
  note(loops_, "link leads", "links lead",
       " to a directory that contains the output, and was not followed: ");
  note(staged_, "link leads", "links lead", " to what was staged, which is not copied back: ");
  note(kept_, "link is a directory", "links are directories",
       std::string(" in the target since an earlier delivery, and ") +
           (kept_.count == 1 ? "was" : "were") + " left out: ");
}

void OutputReport::give_up(const Error& why) {
  record_.flags |= k_item_final;
  finish(why);
}

void OutputReport::tick() {
  if (Clock::now() - published_ >= std::chrono::milliseconds(100)) publish();
}

void OutputReport::publish() {
  published_ = Clock::now();
  record_.elapsed_ms = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(published_ - started_).count());
  static_cast<void>(write_status_item(status_fd_, index_, record_));
}

void OutputReport::end(ItemState state) {
  record_.state = static_cast<std::uint32_t>(state);
  set_field(record_.note, notes_);
  if (record_.begun_ms != 0) record_.ended_ms = wall_ms(Clock::now());
  publish();
}

namespace {

bool is_refused(int code) {
  return code == EPERM || code == EACCES || code == ENOTSUP || code == ENOSYS || code == EINVAL;
}

}  // namespace

bool is_copied_time(const timespec& there, const timespec& time) {
  constexpr std::array<long, 5> k_units = {1, 100, 1'000, 1'000'000, 1'000'000'000};
  return there.tv_sec == time.tv_sec && std::any_of(k_units.begin(), k_units.end(), [&](long unit) {
           return there.tv_nsec == time.tv_nsec - time.tv_nsec % unit;
         });
}

Status KeptAttributes::keep(const char* what, int code) {
  if (code == 0) return {};
  if (!is_refused(code)) return system_error(std::string("cannot set the ") + what, code);
  if (!std::exchange(is_noted_, true))
    report_.add_note(std::string("the target does not keep every mode and time: ") +
                     std::strerror(code));
  return {};
}

}  // namespace nodestage

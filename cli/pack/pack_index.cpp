#include "cli/pack/pack_index.hpp"

#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "cli/base/conversation.hpp"
#include "cli/base/signals.hpp"
#include "cli/pack/output_place.hpp"
#include "common/os/file.hpp"
#include "common/os/terminal.hpp"
#include "common/talk/task_voice.hpp"
#include "common/text/human.hpp"
#include "common/text/path_names.hpp"
#include "daemon/worker/decode/gzip_indexer.hpp"
#include "daemon/worker/piece/recognise.hpp"
#include "daemon/worker/tree/xattrs.hpp"

namespace nodestage {
namespace {

constexpr std::chrono::seconds k_line_interval{10};
constexpr std::chrono::milliseconds k_poll{100};
constexpr mode_t k_group_and_others = 0066;
constexpr mode_t k_all_read = 0444;
constexpr const char* k_nfs4_acl = "system.nfs4_acl";

std::uint64_t ms_since(const Deadline& begun) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begun).count());
}

Status system_fault(const char* what) { return system_error(std::string("cannot ") + what); }

// Empty: the file has none.
std::vector<char> acl_of(int file, const char* name) {
  const ssize_t size = ::fgetxattr(file, name, nullptr, 0);
  std::vector<char> acl(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  if (!acl.empty() && ::fgetxattr(file, name, acl.data(), acl.size()) != size) acl.clear();
  return acl;
}

// It has some of the file's data, so it is for the same readers, or for fewer. With an ACL, the
// bits for the group say something else, and what the directory gives to new files goes.
Status give_rights(int index, int file, const GzipIndexHead& head) {
  struct stat now {};
  struct stat own {};
  if (::fstat(file, &now) != 0 || ::fstat(index, &own) != 0) return system_fault("look at it");
  if (static_cast<std::uint64_t>(now.st_size) != head.size || now.st_mtim.tv_sec != head.mtime)
    return Error{0, "the file was changed while it was read", "Make the index anew."};
  if (::fremovexattr(index, k_access_acl) != 0 && errno != ENODATA && errno != EOPNOTSUPP)
    return system_fault("take its ACL away");
  const bool is_groups = own.st_gid == now.st_gid || ::fchown(index, uid_t(-1), now.st_gid) == 0;
  const auto acl = acl_of(file, k_access_acl);
  const bool has_acl = !acl.empty() || ::fgetxattr(file, k_nfs4_acl, nullptr, 0) > 0;
  mode_t mode = now.st_mode & 0666;
  if (has_acl || (!is_groups && (mode & k_all_read) != k_all_read)) mode &= ~k_group_and_others;
  if (::fchmod(index, mode) != 0) return system_fault("set its mode");
  if (is_groups && !acl.empty()) ::fsetxattr(index, k_access_acl, acl.data(), acl.size(), 0);
  return {};
}

class Indexing {
 public:
  Indexing(const Source& file, Signals& signals)
      : file_(file),
        signals_(signals),
        indexer_(file),
        voice_(Speech::aloud, STDERR_FILENO, obeys_escapes(STDERR_FILENO), "pack",
               k_line_interval) {}

  // If a signal stopped it, signal() returns that signal, and the fault has no meaning.
  Status run(int to) {
    Status done;
    std::atomic<bool> is_over = false;
    std::thread indexing([&] {
      done = indexer_.run([&](std::string_view text) {
        written_ += text.size();
        return write_all(to, text);
      });
      is_over = true;
    });
    while (!is_over) follow();
    indexing.join();
    voice_.clear();
    return done;
  }
  [[nodiscard]] int signal() const { return signal_; }
  [[nodiscard]] std::uint64_t places() const { return indexer_.places(); }
  [[nodiscard]] const GzipIndexHead& head() const { return indexer_.head(); }
  [[nodiscard]] std::string summary() const {
    return human_count(indexer_.places()) + " places in " + human_bytes(indexer_.data()) +
           " of data, " + human_bytes(written_) + ", " + human_duration(ms_since(begun_));
  }

 private:
  void follow() {
    const auto signal = signals_.next(std::min(voice_.report_interval(), k_poll));
    if (signal && is_deadly(*signal)) {
      signal_ = *signal;
      indexer_.stop();
    }
    if (signal && *signal == SIGTSTP) ::kill(0, SIGSTOP);
    Progress progress;
    progress.phase = ProgressPhase::staging;
    progress.items = 1;
    progress.current = printable(last_part(file_.path()));
    progress.bytes_read = indexer_.position();
    progress.bytes_total = file_.size();
    progress.elapsed_ms = ms_since(begun_);
    voice_.progress(progress);
  }

  const Source& file_;
  Signals& signals_;
  GzipIndexer indexer_;
  TaskVoice voice_;
  std::uint64_t written_ = 0;
  const Deadline begun_ = Clock::now();
  int signal_ = 0;
};

std::string advice(int code) {
  switch (code) {
    case 0:
      return "";
    case ENOSPC:
    case EDQUOT:
      return "Free some space there.";
    case EACCES:
    case EPERM:
      return "Check that you can write to the file's directory: an index lies beside its file.";
    default:
      return "No index was written; try again.";
  }
}

int fault_of(const Error& error) {
  return fault(error.what, error.advice.empty() ? advice(error.code) : error.advice);
}

int make(const Source& file, const OutputPlace& place, const std::string& index) {
  auto signals = Signals::open();
  if (!signals) return fault(signals.error().text(), "Try again.");
  const PendingName pending(place.directory.get(), pack_names());
  auto to = pending.create_file(0600);
  if (!to) return fault(index + ": " + to.error().text(), advice(to.error().code));
  Indexing indexing(file, *signals);
  Status done = indexing.run(to->get());
  if (indexing.signal() != 0) {
    fault("stopped by signal " + std::to_string(indexing.signal()), "No index was written.");
    return 128 + indexing.signal();
  }
  if (done && indexing.places() == 0)
    return fault(file.path() + ": an index would not help: there is no place in it to begin at",
                 "It is small, or has short members or few blocks; stage it as it is.");
  if (!done) return fault_of(done.error());
  done = give_rights(to->get(), file.fd(), indexing.head());
  if (done) done = put_in_place(std::move(*to), pending, place, Overwrite::replace);
  if (!done) return fault_of(with_prefix(done.error(), index + ": "));
  std::printf("%s: %s\n", printable(index).c_str(), indexing.summary().c_str());
  return 0;
}

}  // namespace

int pack_index(const std::string& file) {
  RateLimit rate(-1);
  const std::atomic<bool> stop = false;
  Meter meter(rate, stop);
  const auto info = examine_source(file);
  if (!info) return fault_of(info.error());
  if (S_ISDIR(info->st_mode))
    return fault(file + ": is a directory", "An index is for a gzip file, such as a .tar.gz.");
  auto source = Source::open(file, meter);
  if (!source) return fault_of(source.error());
  {
    Unpacking any_name;
    any_name.is_by_content = true;
    const auto found = recognise(*source, any_name, DecoderLimits());
    if (!found) return fault_of(found.error());
    if (found->decoder->coding() != Coding::gzip)
      return fault(file + ": is not a gzip file", "Only those have an index, such as a .tar.gz.");
    if (found->container == Container::none)
      return fault(file + ": is not an archive", "Staging copies it as it is, without an index.");
  }
  const std::string index = file + std::string(k_gzip_index_suffix);
  auto place = open_place(index);
  if (!place) return fault_of(place.error());
  return make(*source, *place, index);
}

}  // namespace nodestage

#include "cli/pack/pack_index.hpp"

#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <thread>

#include "cli/base/conversation.hpp"
#include "cli/base/signals.hpp"
#include "cli/pack/output_place.hpp"
#include "cli/pack/pack_watch.hpp"
#include "common/os/file.hpp"
#include "common/text/human.hpp"
#include "common/text/path_names.hpp"
#include "daemon/worker/decode/gzip_indexer.hpp"
#include "daemon/worker/piece/recognise.hpp"
#include "daemon/worker/tree/xattrs.hpp"

namespace nodestage {
namespace {

constexpr mode_t k_group_and_others = 0066;
constexpr mode_t k_all_read = 0444;
constexpr const char* k_nfs4_acl = "system.nfs4_acl";

// Its access ACL alone; empty: it has none.
Result<Xattrs> acl_of(int file) {
  TRY_ASSIGN(Xattrs xattrs, read_xattrs(file));
  std::erase_if(xattrs, [](const Xattr& xattr) { return xattr.name != k_access_acl; });
  return xattrs;
}

// It has some of the file's data, so it is for the same readers, or for fewer. With an ACL, the
// bits for the group say something else, and what the directory gives to new files goes.
Status give_rights(int index, int file, const GzipIndexHead& head) {
  struct stat now {};
  struct stat own {};
  if (::fstat(file, &now) != 0 || ::fstat(index, &own) != 0)
    return system_error("cannot be looked at");
  if (static_cast<std::uint64_t>(now.st_size) != head.size || now.st_mtim.tv_sec != head.mtime)
    return Error{0, "the file was changed while it was read", "Make the index anew."};
  if (::fremovexattr(index, k_access_acl) != 0 && errno != ENODATA && errno != EOPNOTSUPP)
    return system_error("its ACL cannot be taken away");
  const bool is_groups = own.st_gid == now.st_gid || ::fchown(index, uid_t(-1), now.st_gid) == 0;
  TRY_ASSIGN(const Xattrs acl, acl_of(file));
  const bool has_acl = !acl.empty() || ::fgetxattr(file, k_nfs4_acl, nullptr, 0) > 0;
  mode_t mode = now.st_mode & 0666;
  if (has_acl || (!is_groups && (mode & k_all_read) != k_all_read)) mode &= ~k_group_and_others;
  if (::fchmod(index, mode) != 0) return system_error("its mode cannot be set");
  if (is_groups) set_xattrs(index, acl);  // where it is refused, the owner alone may read it
  return {};
}

class Indexing {
 public:
  Indexing(const Source& file, Signals& signals)
      : file_(file), indexer_(file), watch_(last_part(file.path()), signals) {}

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
    watch_.clear();
    return done;
  }
  [[nodiscard]] int signal() const { return watch_.signal(); }
  [[nodiscard]] std::uint64_t places() const { return indexer_.places(); }
  [[nodiscard]] const GzipIndexHead& head() const { return indexer_.head(); }
  [[nodiscard]] std::string summary() const {
    return human_count(indexer_.places()) + " places in " + human_bytes(indexer_.data()) +
           " of data, " + human_bytes(written_) + ", " + human_duration(watch_.elapsed_ms());
  }

 private:
  void follow() {
    if (watch_.was_stopped()) indexer_.stop();
    Progress progress;
    progress.bytes_read = indexer_.position();
    progress.bytes_total = file_.size();
    watch_.show(std::move(progress));
  }

  const Source& file_;
  GzipIndexer indexer_;
  PackWatch watch_;
  std::uint64_t written_ = 0;
};

std::string index_advice(int code) {
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
  return fault(error.what, error.advice.empty() ? index_advice(error.code) : error.advice);
}

int make(const Source& file, const OutputPlace& place, const std::string& index) {
  auto signals = Signals::open();
  if (!signals) return fault(signals.error().text(), "Try again.");
  const PendingName pending(place.directory.get(), pack_names());
  auto to = pending.create_file(0600);
  if (!to) return fault(index + ": " + to.error().text(), index_advice(to.error().code));
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

#include "daemon/worker/share/tree_look.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "common/os/file.hpp"
#include "common/text/encodings.hpp"
#include "common/text/human.hpp"
#include "daemon/worker/basis/fault.hpp"
#include "daemon/worker/basis/task_crew.hpp"
#include "daemon/worker/budget/meter.hpp"
#include "daemon/worker/share/source_trust.hpp"
#include "daemon/worker/tree/tree_walk.hpp"

namespace nodestage {
namespace {

// The number of names that are listed and handed out at a time.
constexpr std::size_t k_listed_names = 8192;
constexpr std::size_t k_look_names = 64;
// Each of these waits for one answer of the file system at a time.
constexpr unsigned k_look_threads = 16;
// 32 bytes of memory each, if they are all in one directory.
constexpr std::uint64_t k_most_entries = 10'000'000;
constexpr int k_open_directory = O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC;

using OpenDirectory = std::shared_ptr<const Fd>;

class TreeLooking {
 public:
  TreeLooking(const std::string& path, const TreeLookOptions& way)
      : path_(path),
        way_(way),
        crew_({std::max(way.threads, 1U), std::max(way.threads, k_look_threads)}),
        hands_(crew_.most()) {}

  Result<TreeLook> run(int fd) {
    TreeLook look;
    TRY_ASSIGN(look.top, look_at(fd));
    Fd readable(::openat(fd, ".", k_open_directory));
    EntryInfo info{};
    if (!readable || ::statx(readable.get(), "", AT_EMPTY_PATH, STATX_BASIC_STATS, &info) != 0)
      return Error{errno, shown(path_) + ": " + std::strerror(errno)};
    LookedAt& top = directories_.add(nullptr, "", info, LookedAt::As::itself);
    note(top, "", info, 0);
    TaskCrew::Tasks first;
    first.push_back(names_task(top, std::make_shared<const Fd>(std::move(readable))));
    TRY(crew_.run(std::move(first)));
    if (is_stopped()) return Error{ECANCELED, "stopped"};
    look.digest = hex_digits(directories_.digest());
    look.entries = entries_;
    for (const Hand& hand : hands_) {
      look.bytes += hand.bytes;
      if (hand.changed <= look.changed) continue;
      look.changed = hand.changed;
      look.newest = hand.newest;
    }
    return look;
  }

 private:
  struct Hand {  // of one thread
    SourcePace pace;
    std::uint64_t bytes = 0;
    std::int64_t changed = 0;
    std::string newest;
  };
  // Where a batch is.
  struct At {
    LookedAt& directory;
    const OpenDirectory& fd;
    const unsigned thread;
    std::vector<TreeDigest> digests;
    TaskCrew::Tasks tasks;
  };

  // Takes over the part of `parent` that it is.
  Status list(LookedAt& parent, const OpenDirectory& above, const std::string& name,
              LookedAt::As as, unsigned thread) {
    if (is_excluded(parent, name)) return directories_.end_part(parent);
    const auto asked = SourcePace::Clock::now();
    const int follow = as == LookedAt::As::link ? 0 : O_NOFOLLOW;
    auto fd =
        std::make_shared<const Fd>(::openat(above->get(), name.c_str(), k_open_directory | follow));
    EntryInfo info{};
    if (!*fd ||
        ::statx(fd->get(), "", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC, STATX_BASIC_STATS, &info) != 0)
      return fault_at(parent, name, errno);
    hands_[thread].pace.add(asked, 0);
    LookedAt& directory = directories_.add(&parent, name, info, as);
    if (directory.device != parent.device || as == LookedAt::As::link) {
      const std::string why = way_.trust.objection_to_all(full(parent, name), fd->get());
      if (!why.empty()) return Error{EPERM, why};
    }
    note(parent, name, info, thread);
    return list_names(directory, fd, thread);
  }

  // The rest of a large directory is left to a thread that has nothing else to do, so that memory
  // does not depend on the number of its names alone.
  Status list_names(LookedAt& directory, const OpenDirectory& fd, unsigned thread) {
    if (is_stopped()) return Error{ECANCELED, "stopped"};
    auto names = list_directory(fd->get(), k_listed_names);
    if (!names) return fault_at(directory, "", names.error().code);
    entries_ += names->size();
    if (entries_ > k_most_entries)
      return Error{E2BIG, shown(path_) + ": contains more than " + human_count(k_most_entries) +
                              " entries; make archives of it with `nodestage pack`"};
    const bool is_more = names->size() >= k_listed_names;
    TaskCrew::Tasks tasks = tasks_for(directory, fd, std::move(*names));
    if (is_more) {
      ++directory.parts;
      tasks.insert(tasks.begin(), names_task(directory, fd));
    }
    crew_.add(thread, std::move(tasks));
    return end_task(directory, thread);
  }

  // In the order of inodes, which a disk file system probably reads them in.
  TaskCrew::Tasks tasks_for(LookedAt& directory, const OpenDirectory& fd,
                            std::vector<ListedName> names) {
    const auto others = std::partition(names.begin(), names.end(),
                                       [](const ListedName& name) { return name.type == DT_DIR; });
    std::sort(others, names.end(),
              [](const ListedName& a, const ListedName& b) { return a.inode < b.inode; });
    TaskCrew::Tasks tasks;
    const At here{directory, fd, 0, {}, {}};
    for (auto at = names.begin(); at != others; ++at)
      add_directory(here, at->name, LookedAt::As::itself, tasks);
    for (auto at = others; at != names.end();) {
      const auto rest = static_cast<std::size_t>(names.end() - at);
      const auto end = at + static_cast<std::ptrdiff_t>(std::min(rest, k_look_names));
      std::vector<ListedName> batch(std::make_move_iterator(at), std::make_move_iterator(end));
      ++directory.parts;
      tasks.push_back([this, &directory, fd = fd, batch = std::move(batch)](unsigned thread) {
        return look_at_batch(directory, fd, batch, thread);
      });
      at = end;
    }
    return tasks;
  }

  void add_directory(const At& at, const std::string& name, LookedAt::As as,
                     TaskCrew::Tasks& tasks) {
    ++at.directory.parts;
    tasks.push_back(
        [this, &parent = at.directory, above = at.fd, name = name, as](unsigned thread) mutable {
          return list(parent, std::exchange(above, nullptr), name, as, thread);
        });
  }

  // The next names of an open directory.
  TaskCrew::Task names_task(LookedAt& directory, OpenDirectory fd) {
    return [this, &directory, fd = std::move(fd)](unsigned thread) {
      return list_names(directory, fd, thread);
    };
  }

  Status look_at_batch(LookedAt& directory, const OpenDirectory& fd,
                       const std::vector<ListedName>& names, unsigned thread) {
    At at{directory, fd, thread, {}, {}};
    for (const ListedName& entry : names) {
      if (crew_.has_failed() || is_stopped()) return {};
      if (!is_excluded(directory, entry.name)) TRY(look(at, entry.name));
    }
    directory.add(at.digests);
    if (!at.tasks.empty()) crew_.add(thread, std::move(at.tasks));
    return end_task(directory, thread);
  }

  Status end_task(LookedAt& directory, unsigned thread) {
    if (hands_[thread].pace.take_is_slow()) crew_.grow();
    return directories_.end_part(directory);
  }

  Status look(At& at, const std::string& name) {
    const auto asked = SourcePace::Clock::now();
    EntryInfo info{};
    const int how = way_.copy_stop != nullptr ? AT_STATX_FORCE_SYNC : AT_STATX_SYNC_AS_STAT;
    if (::statx(at.fd->get(), name.c_str(), AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | how,
                STATX_BASIC_STATS, &info) != 0)
      return fault_at(at.directory, name, errno);
    hands_[at.thread].pace.add(asked, 0);
    if (S_ISDIR(info.stx_mode)) {
      add_directory(at, name, LookedAt::As::itself, at.tasks);
      return {};
    }
    if (device_of(info) != at.directory.device) TRY(check_trust(at, name, O_NOFOLLOW));
    note(at.directory, name, info, at.thread);
    std::string text;
    add_text(text, name, info);
    if (S_ISLNK(info.stx_mode)) TRY(look_at_link(at, name, text));
    TRY_ASSIGN(at.digests.emplace_back(), digest_of(text));
    return {};
  }

  Status look_at_link(At& at, const std::string& name, std::string& text) {
    char target[PATH_MAX];
    const ssize_t size = ::readlinkat(at.fd->get(), name.c_str(), target, sizeof target);
    if (size < 0) return fault_at(at.directory, name, errno);
    const std::string_view to(target, static_cast<std::size_t>(size));
    text.append(to).push_back('\0');
    const bool is_followed = way_.links == LinksOut::followed && leads_out(to, at.directory.depth);
    return is_followed ? look_behind(at, name, text) : Status();
  }

  // As a copy follows it: one that leads nowhere, or back to a directory above it, stays a link.
  Status look_behind(At& at, const std::string& name, std::string& text) {
    EntryInfo info{};
    if (::statx(at.fd->get(), name.c_str(), 0, STATX_BASIC_STATS, &info) != 0)
      return leads_nowhere(errno) ? Status() : Status(fault_at(at.directory, name, errno));
    if (S_ISDIR(info.stx_mode) && at.directory.is_in(info)) return {};
    if (at.directory.links >= k_max_followed_links) return fault_at(at.directory, name, ELOOP);
    if (S_ISDIR(info.stx_mode)) {
      add_directory(at, name, LookedAt::As::link, at.tasks);
      return {};
    }
    TRY(check_trust(at, name, 0));
    note(at.directory, name, info, at.thread);
    add_text(text, "", info);
    return {};
  }

  Status check_trust(const At& at, const std::string& name, int follow) {
    const Fd fd(::openat(at.fd->get(), name.c_str(), O_PATH | O_CLOEXEC | follow));
    if (!fd) return fault_at(at.directory, name, errno);
    const std::string why = way_.trust.objection(full(at.directory, name), fd.get());
    return why.empty() ? Status() : Status(Error{EPERM, why});
  }

  [[nodiscard]] bool is_stopped() const { return way_.copy_stop != nullptr && *way_.copy_stop; }
  void note(const LookedAt& directory, std::string_view name, const EntryInfo& info,
            unsigned thread) {
    Hand& hand = hands_[thread];
    if (S_ISREG(info.stx_mode)) hand.bytes += info.stx_size;
    // Users can set an mtime, also to the future; that sets the ctime.
    const std::int64_t changed = nanoseconds(info.stx_ctime);
    if (changed <= hand.changed) return;
    hand.changed = changed;
    hand.newest = directory.path_of(name);
  }

  [[nodiscard]] Error fault_at(const LookedAt& directory, std::string_view name, int code) const {
    return {code, shown(full(directory, name)) + ": " + std::strerror(code)};
  }
  [[nodiscard]] std::string full(const LookedAt& directory, std::string_view name) const {
    return path_ + "/" + directory.path_of(name);
  }
  [[nodiscard]] bool is_excluded(const LookedAt& directory, std::string_view name) const {
    return !way_.filter.takes_all() && way_.filter.excludes(directory.path_of(name));
  }

  const std::string& path_;
  const TreeLookOptions& way_;
  TaskCrew crew_;
  std::vector<Hand> hands_;
  std::atomic<std::uint64_t> entries_ = 0;
  LookedDirectories directories_;
};

}  // namespace

TreeLook look_at_tree(const std::string& path, int fd, const TreeLookOptions& way) {
  TreeLook refused;
  refused.why_not = way.trust.objection_to_all(path, fd);
  if (!refused.why_not.empty()) return refused;
  auto look = TreeLooking(path, way).run(fd);
  if (look) return std::move(*look);
  refused.why_not = look.error().text();
  return refused;
}

}  // namespace nodestage

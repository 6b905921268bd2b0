#include "daemon/worker/piece/newest.hpp"

#include <dirent.h>
#include <fcntl.h>

#include <algorithm>
#include <queue>
#include <tuple>
#include <utility>

#include "common/os/file.hpp"
#include "common/text/archive_names.hpp"
#include "common/text/human.hpp"
#include "common/text/path_names.hpp"
#include "daemon/worker/archive/entry_filter.hpp"
#include "daemon/worker/copy/copy_leaf.hpp"
#include "daemon/worker/read/source.hpp"
#include "daemon/worker/tree/directory_listing.hpp"
#include "daemon/worker/tree/pending_file.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_names_at_once = 8192;
constexpr std::size_t k_named = 4;

bool is_newer(const NewestEntry& a, const NewestEntry& b) {
  const auto rank = [](const NewestEntry& entry) {
    const timespec& time = entry.info.st_mtim;
    return std::tie(time.tv_sec, time.tv_nsec, entry.name);
  };
  return rank(a) > rank(b);
}

// Holds the newest of what was added, never many more.
class Newest {
 public:
  explicit Newest(unsigned count) : count_(count) {}

  void add(std::string name, const struct stat& info) {
    ++among_;
    kept_.push({std::move(name), info});
    if (kept_.size() > count_) kept_.pop();
  }

  [[nodiscard]] NewestChoice take() {
    NewestChoice choice;
    choice.among = among_;
    for (; !kept_.empty(); kept_.pop()) choice.entries.push_back(kept_.top());
    std::reverse(choice.entries.begin(), choice.entries.end());
    return choice;
  }

 private:
  struct Newer {
    bool operator()(const NewestEntry& a, const NewestEntry& b) const { return is_newer(a, b); }
  };
  std::size_t count_;
  std::size_t among_ = 0;
  std::priority_queue<NewestEntry, std::vector<NewestEntry>, Newer> kept_;  // the oldest on top
};

bool is_unfinished_output(const std::string& name) {
  return name.starts_with(".nodestage-") && name.ends_with(".tmp");
}

// A directory that stage-out or a push has begun and not completed: its node was lost, or it is
// still at work.
bool is_unfinished_output(const struct stat& info) {
  return S_ISDIR(info.st_mode) && (info.st_mode & 05777) == k_unfinished_directory;
}

bool can_be_staged(const struct stat& info) {
  return S_ISREG(info.st_mode) || S_ISDIR(info.st_mode);
}

Error nothing_left(const std::string& source, const std::string& why, std::string_view advice) {
  return fault(ENOENT, shown(source) + ": newest= has nothing to choose from: " + why, advice);
}

std::string counted(std::size_t count, const char* one, const char* several) {
  return "(" + human_count(count) + " " + (count == 1 ? one : several) + ")";
}

// What a directory holds, for the fault when nothing of it can be chosen.
struct Held {
  std::size_t names = 0;
  std::size_t wanted = 0;  // by include= and exclude=
};

Error nothing_in(const std::string& path, const Held& held) {
  if (held.names == 0)
    return nothing_left(path, "it is empty", "Something must be in it when the job starts");
  if (held.wanted == 0)
    return nothing_left(
        path,
        "include= and exclude= leave out all that is in it " +
            counted(held.names, "entry", "entries"),
        "They are compared with the names that `ls -A " + shell_word(shown(path)) + "` shows");
  return nothing_left(
      path, "nothing in it is a file or a directory " + counted(held.wanted, "entry", "entries"),
      "Symbolic links do not count; of a glob's matches they do: " + shell_word(shown(path)) +
          "/*");
}

class DirectoryChoice {
 public:
  explicit DirectoryChoice(const DatasetItem& item)
      : item_(item), filter_(0, item.include, item.exclude), newest_(item.newest) {}

  Result<NewestChoice> run() {
    TRY_ASSIGN(const Fd way, open_source_directory(item_.source));
    const Fd fd(::openat(way.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd) return unreadable_source(item_.source, errno);
    for (bool is_more = true; is_more;) {
      auto names = list_directory(fd.get(), k_names_at_once);
      if (!names) return unreadable_source(item_.source, names.error().code);
      is_more = names->size() >= k_names_at_once;
      for (ListedName& name : *names) TRY(look_at(fd.get(), name));
    }
    NewestChoice choice = newest_.take();
    if (choice.entries.empty()) return nothing_in(item_.source, held_);
    return choice;
  }

 private:
  // A name that is gone again never counted.
  Status look_at(int fd, ListedName& listed) {
    if (is_unfinished_output(listed.name)) return {};
    ++held_.names;
    if (!filter_.wants(listed.name)) return {};
    ++held_.wanted;
    if (listed.type == DT_LNK) return {};
    struct stat info {};
    if (::fstatat(fd, listed.name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0)
      return errno == ENOENT ? Status()
                             : Status(unreadable_source(item_.source + "/" + listed.name, errno));
    if (can_be_staged(info) && !is_unfinished_output(info))
      newest_.add(std::move(listed.name), info);
    return {};
  }

  const DatasetItem& item_;
  const EntryFilter filter_;
  Newest newest_;
  Held held_;
};

bool wants_match(const EntryFilter& filter, const std::string& name, const struct stat& info) {
  if (filter.excludes(name)) return false;
  return !S_ISREG(info.st_mode) || !archive_suffix(name).empty() || filter.wants(name);
}

}  // namespace

Result<NewestChoice> newest_in_directory(const DatasetItem& item) {
  return DirectoryChoice(item).run();
}

Result<NewestChoice> newest_of_matches(const DatasetItem& item,
                                       const std::vector<std::string>& paths) {
  const EntryFilter filter(0, item.include, item.exclude);
  Newest newest(item.newest);
  for (const std::string& path : paths) {
    const std::string name = last_part(path);
    struct stat info {};
    if (is_unfinished_output(name)) continue;
    if (::stat(path.c_str(), &info) != 0) {
      if (errno == ENOENT) continue;
      return open_fault(path, errno);
    }
    if (can_be_staged(info) && !is_unfinished_output(info) && wants_match(filter, name, info))
      newest.add(path, info);
  }
  NewestChoice choice = newest.take();
  choice.start = start_of_matches(item.source);
  if (choice.entries.empty())
    return nothing_left(item.source,
                        "none of its matches counts " + counted(paths.size(), "match", "matches"),
                        "Files and directories count, unless include= and exclude= leave them out");
  return choice;
}

std::string start_of_matches(const std::string& source) {
  return source.substr(0,
                       source.rfind('/', std::min(start_of_glob(source), source.find('\\'))) + 1);
}

Error newest_of_file(const std::string& path) {
  return fault(ENOTDIR,
               shown(path) + ": is a file, and newest= chooses among the entries of a directory",
               "Name its directory, or remove newest=");
}

Error fault_of_chosen(Error error) {
  if (error.code == ENOENT || error.code == ESTALE)
    error.advice =
        "newest= had chosen it, and it was removed before it was copied. Try again; "
        "what removes old entries there must leave those that jobs start with";
  return error;
}

std::vector<std::string> names_of(const NewestChoice& choice) {
  std::vector<std::string> names;
  for (const NewestEntry& entry : choice.entries) {
    const bool has_start = entry.name.starts_with(choice.start);
    names.push_back(entry.name.substr(has_start ? choice.start.size() : 0));
  }
  return names;
}

std::string newest_text(const NewestChoice& choice) {
  const auto names = names_of(choice);
  const std::size_t named = names.size() <= k_named ? names.size() : k_named - 1;
  std::string text =
      "the newest " + human_count(names.size()) + " of " + human_count(choice.among) + ": ";
  for (std::size_t i = 0; i < named; ++i) text += (i == 0 ? "" : ", ") + shown(names[i]);
  if (named < names.size()) text += " and " + human_count(names.size() - named) + " more";
  return text;
}

}  // namespace nodestage

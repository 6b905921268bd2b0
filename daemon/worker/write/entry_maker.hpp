// EntryMaker: creates one entry of an archive below a directory, at once. All threads of a
// TreeWriter use it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/os/file.hpp"
#include "common/result.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/worker/archive/entry_limits.hpp"
#include "daemon/worker/tree/file_data.hpp"
#include "daemon/worker/tree/job_tree.hpp"

namespace nodestage {

// DirectoryCache: keeps open the directories that a thread writes to below a root, and their
// parents.
// Opens directories without following a link: a descriptor stays in the tree even if its name goes
// elsewhere. For one thread.
class DirectoryCache {
 public:
  explicit DirectoryCache(int root_fd) : root_(root_fd) {}  // borrowed

  // Opens with O_PATH, until the next call. Missing directories are created (0777 & ~umask). If
  // this process may open no more files, the cached directories are closed. Faults as in
  // job_tree.hpp.
  Result<int> open(const std::string& path);

  // Returns the number of directories created since the last call.
  std::size_t take_made() { return std::exchange(made_, 0); }

  // Call it when a directory may have been removed or its name reused.
  void forget();

 private:
  struct Place {
    std::string path;
    Fd fd;
    std::uint64_t used = 0;
  };
  [[nodiscard]] Place* find(std::string_view path);
  Result<Fd> open_or_make(const std::string& path);

  const int root_;
  std::array<Place, 64> places_;
  std::uint64_t uses_ = 0;
  std::size_t made_ = 0;
};

// An entry that is not a directory.
struct NewEntry {
  std::string name;  // the last component
  Entry::Kind kind = Entry::Kind::file;
  mode_t mode = 0;  // final
  std::optional<timespec> mtime;
  std::uint64_t size = 0;
  std::string link;          // of a hard link: a path below the root
  std::uint64_t number = 0;  // in the archive's order
  SharedXattrs xattrs;       // of a file

  struct Part {
    std::uint64_t offset;
    Bytes data;
  };
  // Of a file: its data (in memory owned by others), or where to fetch them from.
  Part data{};
  std::vector<Part> more;
  const EntryData* from = nullptr;
  std::uint64_t id = 0;
};

struct DirectoryAttributes {
  mode_t mode = 0;
  std::optional<timespec> mtime;
  SharedXattrs xattrs = {};
};

// What the site lets an entry contain, and how much was left out because of that. Any thread.
struct EntryRules {
  const Escaping escaping = Escaping::fail;    // the meaning of an entry below a symbolic link
  const mode_t masked = 0;                     // as in TreeWriterLimits
  std::atomic<std::uint64_t> escaped = 0;      // entries, if that is not a fault
  std::atomic<std::uint64_t> lost_xattrs = 0;  // that the file system does not accept
};

// Of entries with the same name, the later one wins: what has the name is removed. All faults are
// about the entry. For one thread; borrows everything.
class EntryMaker {
 public:
  struct Options {
    int root_fd;
    Meter& meter;
    Space& space;                   // this thread's
    const std::atomic<bool>& quit;  // another thread has failed
    EntryRules& rules;
  };
  explicit EntryMaker(const Options& options) : options_(options), directories_(options.root_fd) {}

  // Creates the entry with its data and times. Returns false if it was left out.
  Result<bool> make(const std::string& parent, const NewEntry& entry);

  // create() makes a file that is still empty (no descriptor: it was left out). complete() finishes
  // one whose data were written up to `end`.
  Result<Fd> create(const std::string& parent, const NewEntry& entry);
  Status complete(Fd file, const std::string& path, const NewEntry& entry, std::uint64_t end) const;

  // Opens the existing file and empties it: a tar may have the data with a later name of a file.
  // Creates a new file if the name is a link to something else, which the first name may have
  // become. No descriptor: it was left out.
  Result<Fd> create_again(const std::string& parent, const NewEntry& entry);

  // What happens to what has the name and is not a directory.
  enum class IfTaken { replace, fail };
  Status make_directory(const std::string& path, IfTaken if_taken);
  // Sets those of a directory, which is created if necessary.
  Status set_attributes(const std::string& path, const DirectoryAttributes& attributes);

  void forget_directories() { directories_.forget(); }

 private:
  [[nodiscard]] bool leaves_out(const Error& error) const;
  Result<int> open_directory(const std::string& path);
  Status count_directories(std::size_t made);
  Result<std::optional<int>> parent_of(const std::string& parent, const NewEntry& entry);
  Status make_room(int parent, const std::string& name, const std::string& path) const;
  template <typename Make>
  Status make_name(int parent, const std::string& name, const std::string& path, Make make) const;
  Result<Fd> create_in(int parent, const std::string& path, const NewEntry& entry) const;
  Status fill(int fd, const std::string& path, const NewEntry& entry, std::uint64_t& end) const;
  Result<bool> hard_link(int parent, const std::string& path, const NewEntry& entry) const;
  Status symlink(int parent, const std::string& path, const NewEntry& entry) const;
  Status fifo(int parent, const std::string& path, const NewEntry& entry) const;
  Status set_times(int parent, const std::string& path, const NewEntry& entry) const;

  const Options options_;
  DirectoryCache directories_;
};

// Returns "a/b/c" for "a/b" and "c".
std::string path_in(const std::string& parent, const std::string& name);

}  // namespace nodestage

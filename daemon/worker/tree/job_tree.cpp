#include "daemon/worker/tree/job_tree.hpp"

#include <fcntl.h>
#include <linux/openat2.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "daemon/worker/tree/tree_walk.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_step_bytes = 4000;  // below PATH_MAX

Result<Fd> open_step(int dir_fd, std::string_view path) {
  // Without O_NOFOLLOW, with which a link at the end would be ENOTDIR.
  auto fd = open_beneath(dir_fd, std::string(path), O_PATH | O_DIRECTORY, 0, RESOLVE_NO_SYMLINKS);
  if (fd) return fd;
  const int code = fd.error().code;
  if (code == ELOOP) return Error{code, "a symbolic link is on the path"};
  return Error{code, std::strerror(code)};
}

// Returns the longest part of path, in whole names, that fits into one system call.
std::string_view first_step(std::string_view path) {
  if (path.size() <= k_step_bytes) return path;
  return path.substr(0, path.rfind('/', k_step_bytes));
}

std::string_view after(std::string_view path, std::string_view step) {
  return step.size() < path.size() ? path.substr(step.size() + 1) : std::string_view();
}

constexpr unsigned k_most_links = 40;  // as the kernel

bool is_nothing_there(int code) { return code == ENOENT || code == ENOTDIR; }

// Returns it with one slash between names, and none at the end.
std::string squeezed(std::string_view path) {
  std::string text;
  for (const char c : path) {
    if (c != '/' || !text.ends_with('/')) text += c;
  }
  text.resize(text.find_last_not_of('/') + 1);
  return text;
}

// The path with every link resolved but the last name, which may be gone; "" if that is not known.
std::string with_real_parent(const std::string& path) {
  const SplitPath split = split_path(path);
  char real[PATH_MAX];
  if (split.parent.empty() || ::realpath(std::string(split.parent).c_str(), real) == nullptr)
    return "";
  return squeezed(real) + "/" + std::string(split.name);
}

std::string tidy(const std::string& absolute) {
  return std::filesystem::path(absolute).lexically_normal().string();
}

}  // namespace

Result<Fd> open_directory_below(int root_fd, std::string_view path) {
  Fd held;
  int at = root_fd;
  if (path.empty()) return duplicate(root_fd);
  while (!path.empty()) {
    const std::string_view step = first_step(path);
    TRY_ASSIGN(held, open_step(at, step));
    at = held.get();
    path = after(path, step);
  }
  return held;
}

Result<Fd> make_directories_below(int root_fd, std::string_view path, mode_t mode,
                                  std::size_t* made) {
  auto there = open_directory_below(root_fd, path);
  if (there || there.error().code != ENOENT) return there;
  TRY_ASSIGN(Fd at, duplicate(root_fd));
  while (!path.empty()) {
    const std::string_view name = path.substr(0, path.find('/'));
    const bool is_new = ::mkdirat(at.get(), std::string(name).c_str(), mode) == 0;
    if (!is_new && errno != EEXIST) return Error{errno, std::strerror(errno)};
    if (is_new && made != nullptr) ++*made;
    TRY_ASSIGN(at, open_step(at.get(), name));
    path = after(path, name);
  }
  return at;
}

SplitPath split_path(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return {"", path};
  return {path.substr(0, slash), path.substr(slash + 1)};
}

bool lies_in(std::string_view path, std::string_view top) {
  if (top.empty()) return true;
  return path.starts_with(top) && (path.size() == top.size() || path[top.size()] == '/');
}

bool lies_in_any(const std::string& path, const std::set<std::string>& tops) {
  if (tops.contains(path) || tops.contains("")) return true;
  for (std::size_t end = path.rfind('/'); end != std::string::npos && end > 0;
       end = path.rfind('/', end - 1)) {
    if (tops.contains(path.substr(0, end))) return true;
  }
  return false;
}

std::string joined_path(std::string_view directory, std::string_view name) {
  std::string path(directory);
  if (!directory.empty() && !name.empty()) path += '/';
  return path.append(name);
}

SourceEntry ResolvedPath::entry() const {
  const std::string_view name = split_path(path).name;
  return {parent.get(), name.empty() ? "." : std::string(name), O_NOFOLLOW};
}

Result<Fd> ResolvedPath::open_directory() const {
  return open_beneath(parent.get(), entry().path, O_PATH | O_DIRECTORY | O_NOFOLLOW);
}

JobTree::JobTree(int fd, const std::string& path) : fd_(fd) {
  const std::string name = squeezed(path);
  for (const std::string& one : {name, with_real_parent(name), path_of(fd)}) {
    if (one.size() > 1 && one.starts_with('/') &&
        std::find(names_.begin(), names_.end(), one) == names_.end())
      names_.push_back(one);
  }
  if (names_.empty()) names_.emplace_back("/");  // nothing begins so
}

std::optional<std::string> JobTree::below(std::string_view absolute) const {
  const std::string path = squeezed(absolute);
  for (const std::string& name : names_) {
    if (lies_in(path, name)) return path.substr(std::min(name.size() + 1, path.size()));
  }
  return {};
}

// One look-up, name by name.
class JobTree::Search {
 public:
  Search(const JobTree& tree, const JobPath& path)
      : tree_(tree), last_(path.last), within_(path.within), rest_(path.text) {
    place_.path = path.from;
    place_.is_kept = true;
  }

  Result<ResolvedPath> run() {
    if (const Status found = go(); !found) {
      const int code = found.error().code;
      if (!is_nothing_there(code)) return Error{code, std::strerror(code)};
      end(ResolvedPath::Kind::missing, joined_path(joined_path(place_.path, name_), rest_));
    }
    return std::move(place_);
  }

 private:
  Status go() {
    TRY(move_to(std::string(place_.path)));
    while (!is_over_) {
      name_ = next_name();
      if (name_.empty()) return look();
      TRY(step(name_));
      place_.is_kept = place_.is_kept && lies_in(place_.path, within_);
    }
    return {};
  }

  std::string next_name() {
    const std::size_t begin = std::min(rest_.find_first_not_of('/'), rest_.size());
    const std::size_t end = std::min(rest_.find('/', begin), rest_.size());
    std::string name = rest_.substr(begin, end - begin);
    rest_.erase(0, std::min(rest_.find_first_not_of('/', end), rest_.size()));
    return name;
  }

  Status step(const std::string& name) {
    if (name == ".") return {};
    if (name == "..") return go_up();
    TRY_ASSIGN(Fd entry, open_beneath(directory_.get(), name, O_PATH | O_NOFOLLOW));
    struct stat info {};
    if (::fstat(entry.get(), &info) != 0) return system_error("fstat");
    const bool is_last = rest_.empty();
    if (S_ISLNK(info.st_mode) && (!is_last || last_ == LastLink::follow))
      return follow(entry.get());
    if (!is_last && !S_ISDIR(info.st_mode)) return system_error("step", ENOTDIR);
    place_.path = joined_path(place_.path, name);
    directory_ = std::move(entry);
    return {};
  }

  Status go_up() {
    if (!place_.path.empty()) return move_to(std::string(split_path(place_.path).parent));
    end(ResolvedPath::Kind::outside, tidy(tree_.names_.front() + "/../" + rest_));
    return {};
  }

  Status follow(int link) {
    if (++place_.links > k_most_links) return Error{ELOOP, "a loop of links"};
    TRY_ASSIGN(const std::string text, read_link({link, "", O_NOFOLLOW}));
    if (!text.starts_with('/')) {
      rest_ = joined_path(text, rest_);
      return {};
    }
    const auto below = tree_.below(text);
    rest_ = joined_path(below ? *below : text, rest_);
    if (below) place_.is_kept = false;
    if (below) return move_to("");
    end(ResolvedPath::Kind::outside, tidy(rest_));
    return {};
  }

  Status move_to(const std::string& path) {
    TRY_ASSIGN(directory_, open_directory_below(tree_.fd_, path));
    place_.path = path;
    return {};
  }

  void end(ResolvedPath::Kind kind, std::string path) {
    is_over_ = true;
    place_.kind = kind;
    place_.path = std::move(path);
  }

  // Looks at what the path that was found names.
  Status look() {
    TRY_ASSIGN(place_.parent, open_directory_below(tree_.fd_, split_path(place_.path).parent));
    const std::string name = place_.entry().path;
    if (::fstatat(place_.parent.get(), name.c_str(), &place_.info, AT_SYMLINK_NOFOLLOW) != 0)
      return system_error("look");
    end(ResolvedPath::Kind::there, place_.path);
    return {};
  }

  const JobTree& tree_;
  const LastLink last_;
  const std::string_view within_;
  std::string rest_;  // names still to come
  std::string name_;  // the one at hand
  Fd directory_;      // at place_.path
  ResolvedPath place_;
  bool is_over_ = false;
};

Result<ResolvedPath> JobTree::find(const JobPath& path) const { return Search(*this, path).run(); }

std::string JobTree::link_out(const std::string& path) const {
  for (std::size_t end = path.find('/'); end != std::string::npos; end = path.find('/', end + 1)) {
    std::string part = path.substr(0, end);
    const auto place = find({part});
    if (place && place->kind == ResolvedPath::Kind::outside) return part;
  }
  return path;
}

namespace {

// The last directory on the path that exists.
Result<Fd> open_existing(std::string path) {
  for (;;) {
    auto opened = open_at(AT_FDCWD, path, O_PATH | O_DIRECTORY);
    if (opened || !is_nothing_there(opened.error().code)) return opened;
    path = squeezed(split_path(squeezed(path)).parent) + "/";
  }
}

}  // namespace

Status JobTree::check_outside(const std::string& target, const char* removed) const {
  constexpr int k_most_levels = 4096;
  struct stat top {};
  auto at = open_existing(target);
  if (::fstat(fd_, &top) != 0) return system_error("cannot look at the job's directory");
  ino_t below = 0;
  for (int i = 0; at && i < k_most_levels; ++i) {
    struct stat info {};
    if (::fstat(at->get(), &info) != 0 || info.st_dev != top.st_dev) return {};
    if (std::exchange(below, info.st_ino) == info.st_ino) return {};  // the root
    if (info.st_ino == top.st_ino)
      return Error{EINVAL, "the target " + target +
                               " lies in the job's own directory, which is removed when " +
                               removed + ": name a directory elsewhere"};
    at = open_at(at->get(), "..", O_PATH | O_DIRECTORY);
  }
  return {};  // whoever opens it says what is wrong
}

}  // namespace nodestage

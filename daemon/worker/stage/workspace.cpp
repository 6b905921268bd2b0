#include "daemon/worker/stage/workspace.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/file.hpp"
#include "daemon/worker/basis/fault.hpp"
#include "daemon/worker/tree/job_tree.hpp"
#include "daemon/worker/tree/remove_tree.hpp"
#include "daemon/worker/tree/tree_walk.hpp"
#include "daemon/worker/write/tree_writer.hpp"

namespace nodestage {
namespace {

constexpr const char* k_items = "items";
constexpr const char* k_new_choice = "choice.new";
constexpr std::size_t k_max_choice_bytes = std::size_t{64} * 1024 * 1024;

constexpr const char* k_move_it =
    "Give the dataset another destination: --stage-dataset=SOURCE:DEST";

std::string choice_name(std::size_t item) { return "choice-" + std::to_string(item); }

Error place_fault(const std::string& destination, int code) {
  const std::string where = "$SLURM_TMPDIR/" + shown(destination);
  if (code == EEXIST || code == ENOTEMPTY) {
    return fault(code, where + ": already exists", k_move_it);
  }
  if (code == ELOOP || code == ENOTDIR) {
    return fault(code, where + ": a directory on the path is a link or a file", k_move_it);
  }
  return fault(code, where + ": " + std::strerror(code),
               "If it happens again, tell your site's support");
}

// Renaming a directory changes its "..", so its owner must be able to write to it.
int rename_any(int from_fd, const char* name, int to_fd, const char* to_name) {
  if (::renameat2(from_fd, name, to_fd, to_name, RENAME_NOREPLACE) == 0) return 0;
  const int code = errno;
  struct stat info {};
  if (code != EACCES || ::fstatat(from_fd, name, &info, AT_SYMLINK_NOFOLLOW) != 0 ||
      !S_ISDIR(info.st_mode)) {
    return code;
  }
  const auto directory = open_directory_at(from_fd, name);
  if (!directory || !change_mode(directory->get(), info.st_mode | S_IRWXU)) return code;
  const bool renamed = ::renameat2(from_fd, name, to_fd, to_name, RENAME_NOREPLACE) == 0;
  const int second = errno;
  static_cast<void>(change_mode(directory->get(), info.st_mode & 07777));
  return renamed ? 0 : second;
}

void remove_below(int dir_fd, const std::string& name) {
  const Status removed = remove_entry(dir_fd, name);
  if (!removed && removed.error().code != ENOENT)
    log_line("not removed: " + name + "/" + removed.error().text());
}

}  // namespace

Result<Workspace> Workspace::open(int job_fd, Existing existing) {
  if (::mkdirat(job_fd, k_partial_directory, 0700) != 0 && errno != EEXIST) {
    return place_fault(k_partial_directory, errno);
  }
  auto top = open_directory_at(job_fd, k_partial_directory);
  if (!top) return place_fault(k_partial_directory, top.error().code);
  Workspace workspace(job_fd, existing);
  workspace.top_ = std::move(*top);
  const int top_fd = workspace.top_.get();
  TRY(workspace.read_ledger(top_fd));
  remove_below(top_fd, k_items);
  if (::mkdirat(top_fd, k_items, 0700) != 0) return place_fault(k_partial_directory, errno);
  TRY_ASSIGN(workspace.items_, open_directory_at(top_fd, k_items));
  return workspace;
}

// What was not written completely goes.
Status Workspace::read_ledger(int top_fd) {
  constexpr int k_flags = O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK;
  TRY_ASSIGN(ledger_, open_at(top_fd, k_placed_file, k_flags, 0600));
  TRY_ASSIGN(std::string ledger, read_all(ledger_.get(), k_max_choice_bytes));
  const auto whole = ledger.rfind('\0');
  ledger.resize(whole == std::string::npos ? 0 : whole + 1);
  if (::ftruncate(ledger_.get(), static_cast<off_t>(ledger.size())) != 0)
    return system_error(k_placed_file);
  placed_ = parse_placed_names(ledger);
  return {};
}

Result<Fd> Workspace::make_item(std::size_t item) {
  const std::string name = std::to_string(item);
  if (::mkdirat(items_.get(), name.c_str(), 0700) != 0 && errno != EEXIST)
    return place_fault(k_partial_directory, errno);
  return open_directory_at(items_.get(), name);
}

void Workspace::remove_item(std::size_t item) { remove_below(items_.get(), std::to_string(item)); }

// One that was not written completely has no name yet.
Status Workspace::keep_choice(std::size_t item, const std::string& choice) {
  constexpr int k_flags = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK;
  const auto file = open_at(top_.get(), k_new_choice, k_flags, 0600);
  if (!file) return place_fault(k_partial_directory, file.error().code);
  if (const Status written = write_all(file->get(), choice); !written)
    return place_fault(k_partial_directory, written.error().code);
  if (::renameat(top_.get(), k_new_choice, top_.get(), choice_name(item).c_str()) != 0)
    return place_fault(k_partial_directory, errno);
  return {};
}

Result<std::string> Workspace::kept_choice(std::size_t item) const {
  constexpr int k_flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK;
  const auto file = open_at(top_.get(), choice_name(item), k_flags);
  if (!file && file.error().code == ENOENT) return std::string();
  if (!file) return place_fault(k_partial_directory, file.error().code);
  return read_all(file->get(), k_max_choice_bytes);
}

void Workspace::remove(bool keeps_names) {
  if (keeps_names && ::renameat(top_.get(), k_placed_file, job_fd_, k_placed_afterwards) != 0)
    log_line(std::string("not kept: ") + k_placed_afterwards);
  remove_below(job_fd_, k_partial_directory);
}

Status Workspace::claim(const std::string& destination, const std::string& source) {
  const std::lock_guard lock(*mutex_);
  const auto in_the_way = claim_on(destination);
  if (in_the_way == claims_.end()) {
    claims_.emplace(destination, source);
    return {};
  }
  const auto& [taken, by] = *in_the_way;
  const std::string cause =
      taken == destination
          ? shown(by) + " and " + shown(source) + " would both become '" + shown(taken) + "'"
          : shown(by) + " would become '" + shown(taken) + "', " + shown(source) + " '" +
                shown(destination) + "': one inside of the other";
  return fault(EEXIST, cause, k_move_one_of_them);
}

// What is claimed there, around it, or inside it. A glob can have 100,000 destinations.
Workspace::Claims::const_iterator Workspace::claim_on(const std::string& destination) const {
  for (std::size_t end = 0; end != std::string::npos;) {
    end = destination.find('/', end + 1);
    const auto taken = claims_.find(std::string_view(destination).substr(0, end));
    if (taken != claims_.end()) return taken;
  }
  const std::string inside = destination + "/";
  const auto next = claims_.lower_bound(inside);
  return next != claims_.end() && next->first.starts_with(inside) ? next : claims_.end();
}

Result<Workspace::Place> Workspace::find(const std::string& destination) const {
  const SplitPath split = split_path(destination);
  TRY_ASSIGN(Fd parent, open_directory_below(job_fd_, split.parent));
  return Place{std::move(parent), std::string(split.name)};
}

bool Workspace::has(const std::string& destination) const {
  const auto at = find(destination);
  return at && has_entry(at->parent.get(), at->name);
}

bool Workspace::is_placed(const std::string& destination) const {
  return placed_.contains(destination) && has(destination);
}

bool Workspace::is_made(const std::string& destination) const {
  return is_placed(destination) || (existing_ == Existing::goes && has(destination));
}

void Workspace::take_back(const std::string& destination) {
  if (const auto at = find(destination)) remove_below(at->parent.get(), at->name);
}

// Opens the destination's parent, and notes in the ledger that the destination will be made.
Result<Workspace::Place> Workspace::prepare(const std::string& destination) {
  const SplitPath split = split_path(destination);
  auto made = make_directories_below(job_fd_, split.parent, 0755);
  if (!made) return place_fault(destination, made.error().code);
  Place place{std::move(*made), std::string(split.name)};
  if (existing_ == Existing::goes) remove_below(place.parent.get(), place.name);
  if (has_entry(place.parent.get(), place.name)) return place_fault(destination, EEXIST);
  const std::lock_guard lock(*mutex_);
  TRY(write_all(ledger_.get(), std::string_view(destination.c_str(), destination.size() + 1)));
  return place;
}

Status Workspace::place(int from_fd, const std::string& name, const std::string& destination) {
  TRY_ASSIGN(const Place to, prepare(destination));
  const int code = rename_any(from_fd, name.c_str(), to.parent.get(), to.name.c_str());
  return code == 0 ? Status() : Status(place_fault(destination, code));
}

Status Workspace::link(const std::string& target, const std::string& destination) {
  TRY_ASSIGN(const Place to, prepare(destination));
  if (::symlinkat(target.c_str(), to.parent.get(), to.name.c_str()) == 0) return {};
  return place_fault(destination, errno);
}

bool Workspace::is_link_to(const std::string& destination, const std::string& target) const {
  const auto at = find(destination);
  return at && !target.empty() && link_text(at->parent.get(), at->name) == target;
}

Status Workspace::protect(const std::string& destination, WriteBits bits) const {
  const auto at = find(destination);
  if (!at) return place_fault(destination, at.error().code);
  const auto placed = open_beneath(at->parent.get(), at->name, O_PATH | O_NOFOLLOW);
  struct stat info {};
  if (!placed) return place_fault(destination, placed.error().code);
  if (::fstat(placed->get(), &info) != 0) return place_fault(destination, errno);
  const bool is_directory = S_ISDIR(info.st_mode);
  if (!is_directory && (!S_ISREG(info.st_mode) || info.st_nlink > 1)) return {};
  const mode_t mode = bits == WriteBits::taken_for_all ? mode_with(bits, info.st_mode) & 0777
                      : is_directory                   ? 0500
                                                       : info.st_mode & 0500;
  const Status changed = change_mode(placed->get(), mode);
  return changed ? Status() : Status(place_fault(destination, changed.error().code));
}

Status link_tree(Fd from, const std::string& path, int to_fd, const std::string& name,
                 const LinkWriting& writing) {
  Space& space = writing.space;
  struct stat info {};
  if (::fstat(from.get(), &info) != 0) return place_fault(name, errno);
  if (!S_ISDIR(info.st_mode)) {
    TRY(space.will_link(path.size()));
    if (::symlinkat(path.c_str(), to_fd, name.c_str()) == 0) return {};
    return space.explain(name, errno);
  }
  TRY(space.will_make());
  if (::mkdirat(to_fd, name.c_str(), 0777) != 0) return space.explain(name, errno);
  const auto top = open_directory_at(to_fd, name);
  if (!top) return space.explain(name, top.error().code);
  TreeWriter writer(top->get(), writing.umask, writing.meter, space, {writing.threads});
  TRY_ASSIGN(TreeWalk walk, TreeWalk::begin(std::move(from), WalkFor::looking));
  for (;;) {
    TRY_ASSIGN(const auto step, walk.next());
    if (!step) return writer.finish();
    if (step->kind == WalkStep::Kind::fault)
      return with_prefix(Error(step->fault), shown(walk.path(*step)) + ": ");
    if (step->kind == WalkStep::Kind::directory_end) continue;
    Entry entry{walk.path(*step), Entry::Kind::directory, 0777};
    if (step->kind != WalkStep::Kind::directory) {
      entry.kind = Entry::Kind::symlink;
      entry.link = S_ISLNK(step->info.st_mode) ? link_text(step->dir_fd, step->name)
                                               : path + "/" + entry.name;
    }
    TRY(writer.add(entry));
  }
}

}  // namespace nodestage

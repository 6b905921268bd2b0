// How the job finds an item that is staged: at its destination itself, by a link to where it lies
// (in memory, in the cache), as a mount, or as directories of the job's own with links to its
// files.
#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "common/os/file.hpp"
#include "common/text/human.hpp"
#include "common/text/squashfs_image.hpp"
#include "daemon/worker/basis/fault.hpp"
#include "daemon/worker/stage/staged_item.hpp"

namespace nodestage {

std::string StagedItem::tree_of(const std::string& destination) const {
  return is_mounted() || sharing_.is_spread() ? kept_place(destination) : destination;
}

Result<bool> StagedItem::keep_placed(const std::string& destination) {
  if (!context_.workspace.is_placed(tree_of(destination))) return false;
  TRY(expose(destination));
  progress_.add_note("already in place");
  return true;
}

Status StagedItem::place(int from_fd, const char* name, const std::string& destination) {
  TRY(context_.workspace.place(from_fd, name, tree_of(destination)));
  return expose(destination);
}

// Takes the write bits from what was placed, and shows it.
Status StagedItem::expose(const std::string& destination) {
  const auto bits = context_.order.for_readers ? WriteBits::taken_for_all : WriteBits::taken;
  if (sharing_.is_read_only()) TRY(context_.workspace.protect(tree_of(destination), bits));
  return show(destination);
}

// Makes it visible at the destination, if it lies elsewhere.
Status StagedItem::show(const std::string& destination) {
  if (is_mounted()) return mount(destination);
  if (is_in_memory()) TRY(lead(destination, context_.directory + "/" + destination));
  return spread(destination);
}

// Makes a link in the job directory. An earlier worker may have made it already.
Status StagedItem::lead(const std::string& name, const std::string& path) {
  return names().is_link_to(name, path) ? Status() : names().link(path, name);
}

// The process that serves the image waits for the first link. The destination leads to the mount
// only once that is served.
Status StagedItem::mount(const std::string& destination) {
  const std::string tree = tree_of(destination);
  Status done = look_at_image(tree);
  if (done) done = lead(image_link(image_), context_.directory + "/" + tree);
  if (done) done = look_at_mount();
  if (done) done = lead(destination, mount_path());
  if (!done) {
    if (names().is_link_to(destination, mount_path())) names().take_back(destination);
    context_.workspace.take_back(tree);
  }
  progress_.add_note("mounted, read-only");
  return done;
}

// What this node had already was not looked at when it was staged without `mount`.
Status StagedItem::look_at_image(const std::string& tree) const {
  const auto image = open_at(context_.dir_fd, tree, O_RDONLY | O_NONBLOCK);
  struct stat info {};
  if (!image || ::fstat(image->get(), &info) != 0)
    return with_prefix(image ? system_error("fstat") : image.error(), source() + ": ");
  if (!S_ISREG(info.st_mode)) return check_image(source(), {}, 0);
  std::string start(k_image_start_bytes, '\0');
  TRY_ASSIGN(const std::size_t bytes,
             pread_all(image->get(), std::as_writable_bytes(std::span(start)), 0));
  return check_image(source(), std::string_view(start).substr(0, bytes),
                     static_cast<std::uint64_t>(info.st_size));
}

// Waits until the image is served, which its root's links tell, or until there is nobody who could
// serve it.
Status StagedItem::look_at_mount() const {
  constexpr auto k_look_again = std::chrono::milliseconds(5);
  struct statx info {};
  int code = 0;
  while (!context_.stop) {
    const int flags = AT_STATX_FORCE_SYNC;
    code = ::statx(AT_FDCWD, mount_path().c_str(), flags, STATX_NLINK, &info) == 0 ? 0 : errno;
    if (code != 0 && code != EINTR) break;
    if (code == 0 && info.stx_nlink > 1) return {};
    std::this_thread::sleep_for(k_look_again);
  }
  if (context_.stop) return stopped();
  return fault(code,
               source() + ": cannot be mounted: the process that serves it has ended (" +
                   std::strerror(code) + "): the image is damaged, or the process was stopped",
               "Test it with: unsquashfs -lc " + shell_word(source()) + " >/dev/null" +
                   " (without mount, the image is copied as it is)");
}

// What would serve it ends then, and its mount with it.
void StagedItem::give_up_mount() {
  if (context_.order.images.mounts.empty()) return;
  names().take_back(image_link(image_));
  static_cast<void>(names().link("/dev/null", image_link(image_)));
}

Status StagedItem::link() {
  const std::string destination = progress_.destination();
  TRY_ASSIGN(const bool is_there, keep_placed(destination));
  const std::string tree = tree_of(destination);
  if (!is_there) {
    TRY(context_.workspace.link(sharing_.path(), tree));
    TRY(show(destination));
  }
  if (context_.workspace.is_link_to(tree, sharing_.path())) sharing_.set_linked();
  return {};
}

// Its own directories, with links by way of the tree's place in the job directory: that is a link
// into the cache, once the tree is kept. Those of an earlier worker may have the job's files.
Status StagedItem::spread(const std::string& destination) {
  if (!sharing_.is_spread() || context_.workspace.is_made(destination)) return {};
  const std::string tree = tree_of(destination);
  TRY_ASSIGN(const Fd item_fd, context_.workspace.make_item(index_));
  TRY_ASSIGN(Fd from, open_at(context_.dir_fd, tree, O_PATH));
  Meter uncounted(context_.rate, context_.stop);
  Status made = link_tree(std::move(from), context_.directory + "/" + tree, item_fd.get(), "spread",
                          {context_.umask, context_.limits.threads, uncounted, space_});
  if (made) made = context_.workspace.place(item_fd.get(), "spread", destination);
  if (!made) context_.workspace.take_back(tree);
  return made;
}

}  // namespace nodestage

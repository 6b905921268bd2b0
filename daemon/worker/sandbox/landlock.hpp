// Landlock: lets this process and all threads that it starts write only below a few directories.
#pragma once

#include <cstdint>
#include <span>

#include "common/os/file.hpp"
#include "common/result.hpp"
#include "common/wire/worker_order.hpp"

namespace nodestage {

// LandlockRuleset: the part of the kernel's Landlock interface that is used here. A build machine's
// kernel headers may be older than the node's kernel. Interface:
// Documentation/userspace-api/landlock.rst of the kernel.

// Rights on files, as the kernel numbers them.
enum LandlockRight : std::uint64_t {
  k_landlock_execute = 1 << 0,
  k_landlock_write_file = 1 << 1,
  k_landlock_remove_directory = 1 << 4,
  k_landlock_remove_file = 1 << 5,
  k_landlock_make_character_device = 1 << 6,
  k_landlock_make_directory = 1 << 7,
  k_landlock_make_file = 1 << 8,
  k_landlock_make_socket = 1 << 9,
  k_landlock_make_fifo = 1 << 10,
  k_landlock_make_block_device = 1 << 11,
  k_landlock_make_symlink = 1 << 12,
  k_landlock_refer = 1 << 13,           // from version 2 on
  k_landlock_truncate = 1 << 14,        // from version 3 on
  k_landlock_control_device = 1 << 15,  // from version 5 on
};

// Every right that changes something.
inline constexpr std::uint64_t k_landlock_all_writes = 0xfff2;

enum class TcpPorts { none, all };

class LandlockRuleset {
 public:
  // Prepares to take away `rights`, as far as the kernel knows them, TCP ports (from version 4 on)
  // unless all may be used, and signals to processes and abstract sockets outside (from version 6
  // on). Fails with ENOSYS if there is no Landlock, or a version before 2.
  static Result<LandlockRuleset> make(std::uint64_t rights, TcpPorts ports = TcpPorts::none);

  // Leaves `rights` on `path_fd` (O_PATH is enough) and everything below it.
  Status allow(int path_fd, std::uint64_t rights) const;

  // Applies to this process, its future threads, and everything that it starts. Cannot be undone.
  // Needs no_new_privs.
  Status enter() const;

 private:
  LandlockRuleset(Fd fd, std::uint64_t rights) : fd_(std::move(fd)), rights_(rights) {}
  Fd fd_;
  std::uint64_t rights_;
};

// Forbids, as far as the kernel's version supports it: writing, creating, renaming, linking, and
// removing except below `directories` (O_PATH is enough); creating devices and FIFOs; controlling
// devices and running programs; TCP ports; signals to processes outside. Reading and open files
// stay as they were. This cannot be undone, only narrowed. Needs no_new_privs and a process without
// other threads. A fault leaves everything as it was. With Special::keep, FIFOs can also be created
// below `directories`.
Status confine_writes(std::span<const Fd> directories, Special special);

// Does the same without a directory: only open files can be written. TCP ports can be used.
Status confine_to_network();

}  // namespace nodestage

// The sandbox of a worker: what it gives up once it knows its task, before it looks at anything
// that others wrote.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/os/file.hpp"
#include "common/result.hpp"
#include "common/wire/worker_order.hpp"

namespace nodestage {

// Proves that this process has no right that the job's user lacks.

// Fails unless all of this holds: every uid and gid (real, effective, saved, of the file system) is
// the order's and not 0; the inheritable, permitted, effective, and ambient capability sets are
// empty; no_new_privs is set. Supplementary groups and the bounding set may be anything.
Status verify_privileges(const OrderHead& order);

// Does the same for a text of /proc/self/status.
Status verify_process_status(std::string_view status, const OrderHead& order);

// The rights that a task needs. (Those of pip and other programs are below.)
enum class Profile {
  decode,  // reads and decodes untrusted data, and writes files
  relay,   // reads files, writes to what it has open, and talks to other nodes by TCP
  serve,   // reads and writes what it has open, and opens nothing
};

// The confinement in force.
struct Sandbox {
  bool writes_confined = false;
  bool calls_filtered = false;
  std::string lacking;  // what this kernel does not offer; not a fault
  std::string fault;    // what the kernel offers but this process could not enter, with the cause

  [[nodiscard]] bool holds() const { return writes_confined && calls_filtered; }
};

// Limits open files, memory dumps, the directories to write to (below `places`), and the system
// calls. With Special::keep, FIFOs can be created, too. The other profiles have no places and
// nothing special. Leaves out what cannot be entered. Needs a process without other threads that
// may proceed.
Sandbox enter_sandbox(Profile profile, Special special, const std::vector<Fd>& places);
// Does the same without a limit on the directories, for a task that cannot know them.
Sandbox enter_sandbox(Profile profile, Special special);

// The sandbox of a process that builds environments: it runs pip and, with venv.build = "any",
// other people's code.

// Confines this process and everything that it starts, for good. No other thread may run.
// no_new_privs must be set; without it only core files are limited, and that is reported as
// lacking. Core files are disabled, the system calls of filter_build_calls() are refused (so there
// is no network), and Landlock applies as far as the kernel has it:
//   ABI 2   files and directories are created, changed, and removed only below job_fd; of the
//           devices, null and zero can be written
//   ABI 3   the same for truncating
//   ABI 5   no ioctl on devices
//   ABI 6   no signal to a process outside, no abstract unix socket of one
// A private /dev would need privilege, so whatever the user may read can be read.
Sandbox enter_build_sandbox(int job_fd);

}  // namespace nodestage

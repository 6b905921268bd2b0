#include "daemon/worker/basis/low_priority.hpp"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace nodestage {

void lower_priority() {
  static_cast<void>(::setpriority(PRIO_PROCESS, 0, 19));
  // Newer releases of <linux/ioprio.h> are not valid C++; the values are those of ioprio_set(2).
  constexpr int k_this_process = 1;
  constexpr int k_idle = 3 << 13;
  static_cast<void>(::syscall(SYS_ioprio_set, k_this_process, 0, k_idle));
}

}  // namespace nodestage

#include "daemon/root/workers/cgroup_keeper.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "daemon/root/basis/service_manager.hpp"
#include "daemon/root/basis/textfile.hpp"
#include "daemon/root/workers/cgroup.hpp"

namespace nodestage {

Status keep_cgroup(const std::string& file) {
  sigset_t ends;
  ::sigemptyset(&ends);
  for (const int signal : {SIGTERM, SIGINT}) ::sigaddset(&ends, signal);
  ::sigprocmask(SIG_BLOCK, &ends, nullptr);
  ::prctl(PR_SET_NAME, "nodestage-cgrp");
  TRY_ASSIGN(const std::string cgroup, Cgroups::hand_on());
  TRY(replace_textfile(file, cgroup));
  notify_service_manager("READY=1");
  int signal = 0;
  ::sigwait(&ends, &signal);
  ::unlink(file.c_str());
  return {};
}

}  // namespace nodestage

// How the launchers of tests/bench start a worker as the daemon does: with the descriptors of
// common/wire/worker_order.hpp and no_new_privs, with their own user, groups and umask. What cannot
// be made ends the launcher with exit code 3.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "common/request/request.hpp"
#include "common/wire/worker_order.hpp"

namespace nodestage {

// Descriptors of this process; -1: the worker has none.
struct Launch {
  int status = -1;
  int order = -1;
  int request = -1;
  int directory = -1;
  int rate = -1;
  int answer = -1;
  int board = -1;
  int spool = -1;
};

[[noreturn]] void give_up(const std::string& what);

// The same file as a descriptor beyond those of a worker. Closes `fd`.
int moved_up(int fd);
int memory_file(const char* name, std::string_view content);
int opened(const std::string& path, int flags);
// Of an unlimited rate.
int rate_file();

StageOrder make_order(const std::string& directory, unsigned threads);
// For one dataset that becomes `data` in the job directory. `keys`: as in the option, such as
// "join".
StageRequest make_request(const std::string& source, const std::string& keys = "");

// The worker's process; it is this process's child.
pid_t start_worker(const Launch& launch, const char* program);
// Its exit code, or 128 and the signal that ended it.
int exit_code(int ended);

}  // namespace nodestage

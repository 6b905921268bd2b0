// A program in the worker's place: prints what it was given, one fact a line. Linked to nothing of
// ours.
//   fake_worker            descriptors, environment, arguments, rights
//   fake_worker euid       the effective uid alone
#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

extern char** environ;

namespace {

void print_descriptors() {
  DIR* directory = opendir("/proc/self/fd");
  if (directory == nullptr) return;
  while (const dirent* entry = readdir(directory)) {
    const int fd = atoi(entry->d_name);
    if (entry->d_name[0] == '.' || fd == dirfd(directory)) continue;
    static const char* const k_access[] = {"r", "w", "rw"};
    printf("fd %d %s\n", fd, k_access[fcntl(fd, F_GETFL) & O_ACCMODE]);
  }
  closedir(directory);
}

void print_status(const char* wanted) {
  FILE* status = fopen("/proc/self/status", "r");
  char line[4096];
  while (status != nullptr && fgets(line, sizeof line, status) != nullptr) {
    if (strncmp(line, wanted, strlen(wanted)) == 0) fputs(line, stdout);
  }
  if (status != nullptr) fclose(status);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "euid") == 0) {
    printf("euid %u\n", geteuid());
    return 0;
  }
  for (int i = 0; i < argc; ++i) printf("arg %s\n", argv[i]);
  for (char** variable = environ; *variable != nullptr; ++variable) printf("env %s\n", *variable);
  print_descriptors();
  for (const char* line : {"Uid:", "Gid:", "Groups:", "Cap", "NoNewPrivs:", "SigBlk:", "SigIgn:"})
    print_status(line);
  char directory[4096];
  if (getcwd(directory, sizeof directory) != nullptr) printf("cwd %s\n", directory);
  printf("umask %o\n", umask(0));
  printf("session leader %d\n", getsid(0) == getpid());
  rlimit core{};
  getrlimit(RLIMIT_CORE, &core);
  printf("core %lu\n", static_cast<unsigned long>(core.rlim_cur));
  // What may be changed through the descriptors that are for reading.
  for (const int fd : {3, 4, 7, 8}) printf("writable %d %d\n", fd, pwrite(fd, "x", 1, 0) == 1);
  return 0;
}

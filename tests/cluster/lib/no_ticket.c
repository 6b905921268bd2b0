// For bad_input.bats, by ld.so.preload: to open a file whose name begins with "ticket" fails as on
// a file system whose Kerberos ticket has expired.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>

typedef int (*open_call)(int, const char*, int, unsigned);

static int wants_ticket(const char* path) {
  const char* slash = strrchr(path, '/');
  if (strncmp(slash != NULL ? slash + 1 : path, "ticket", 6) != 0) return 0;
  errno = EKEYEXPIRED;
  return 1;
}

// Looked up before main(), outside of any sandbox.
#define OPEN_CALL(name)                                                         \
  static open_call real_##name;                                                 \
  static __attribute__((constructor)) void find_##name(void) {                  \
    real_##name = (open_call)dlsym(RTLD_NEXT, #name);                           \
  }                                                                             \
  int name(int directory, const char* path, int flags, ...) {                   \
    va_list rest;                                                               \
    va_start(rest, flags);                                                      \
    const unsigned mode = va_arg(rest, unsigned);                               \
    va_end(rest);                                                               \
    return wants_ticket(path) ? -1 : real_##name(directory, path, flags, mode); \
  }

OPEN_CALL(openat)
OPEN_CALL(openat64)
OPEN_CALL(__openat_2)
OPEN_CALL(__openat64_2)

/* enter STATE HOST USER CMD...: runs CMD in that host of the cluster whose state directory it is, with a login's environment
 * of USER, in the host's cgroup user.slice. In C, and linked statically, since tests do that some ten thousand times: as a
 * shell that becomes nsenter, setpriv and env, it took five times as long as most commands that they run.
 *
 * Needs root. Exits as CMD does, or with 1 and a message. CMD ends with this process (parent death signal); what it has
 * started in the background does not. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *state, *host, *user;
static char cgroup[256];

static void die(int code, const char *format, ...) {
  va_list values;
  va_start(values, format);
  fprintf(stderr, "cluster: ");
  vfprintf(stderr, format, values);
  fprintf(stderr, "\n");
  exit(code);
}

__attribute__((format(printf, 1, 2))) static char *text(const char *format, ...) {
  char *made;
  va_list values;
  va_start(values, format);
  if (vasprintf(&made, format, values) < 0) die(1, "no memory");
  return made;
}

static FILE *open_state(const char *name) { return fopen(text("%s/%s", state, name), "re"); }

/* The host's process 1. Its cgroup tells it from a later process with the same number. */
static int host_pid(void) {
  char *line = NULL, *of_host = text(":/%s/%s", cgroup, host);
  size_t size = 0;
  int pid = 0, found = 0;
  FILE *file = open_state(text("hosts/%s/pid", host));
  if (file != NULL && fscanf(file, "%d", &pid) == 1) {
    FILE *groups = fopen(text("/proc/%d/cgroup", pid), "re");
    while (groups != NULL && !found && getline(&line, &size, groups) > 0) {
      line[strcspn(line, "\n")] = 0;
      const char *end = strstr(line, of_host);
      found = end != NULL && end[strlen(of_host)] == 0;
    }
  }
  if (!found) die(1, "host %s is gone", host);
  return pid;
}

static void join_cgroups(void) {
  char *line = NULL;
  size_t size = 0;
  FILE *file = open_state("hierarchies");
  while (file != NULL && getline(&line, &size, file) > 0) {
    char *name = text("%.*s/%s/%s/user.slice/cgroup.procs", (int)strcspn(line, " \n"), line, cgroup, host);
    int procs = open(name, O_WRONLY | O_CLOEXEC);
    if (procs < 0 || write(procs, "0", 1) != 1) die(1, "%s: %s", name, strerror(errno));
    close(procs);
  }
}

/* From the cluster's own files: those of the machine do not have its users. */
static struct passwd *find_user(void) {
  struct passwd *entry;
  FILE *file = open_state("shared/etc/passwd");
  while (file != NULL && (entry = fgetpwent(file)) != NULL) {
    if (strcmp(entry->pw_name, user) == 0) return entry;
  }
  die(1, "no such user: %s", user);
  return NULL;
}

static size_t find_groups(gid_t first, gid_t *groups, size_t most) {
  size_t count = 0;
  struct group *entry;
  FILE *file = open_state("shared/etc/group");
  groups[count++] = first;
  while (file != NULL && (entry = fgetgrent(file)) != NULL) {
    for (char **member = entry->gr_mem; *member != NULL; ++member) {
      if (strcmp(*member, user) == 0 && entry->gr_gid != first && count < most) groups[count++] = entry->gr_gid;
    }
  }
  return count;
}

static void enter_namespaces(int pid) {
  /* The mount name space last: the others' files are found in this one. */
  static const char *const names[] = {"cgroup", "ipc", "uts", "net", "pid", "mnt"};
  enum { k_count = sizeof names / sizeof *names };
  int opened[k_count];
  for (int i = 0; i < k_count; ++i) {
    opened[i] = open(text("/proc/%d/ns/%s", pid, names[i]), O_RDONLY | O_CLOEXEC);
    if (opened[i] < 0) die(1, "host %s is gone", host);
  }
  for (int i = 0; i < k_count; ++i) {
    if (setns(opened[i], 0) != 0) die(1, "%s name space of %s: %s", names[i], host, strerror(errno));
    close(opened[i]);
  }
}

/* Ends, and stops, as the child does. */
static int as_child(pid_t child) {
  int status;
  for (;;) {
    if (waitpid(child, &status, WUNTRACED) < 0) {
      if (errno == EINTR) continue;
      die(1, "waitpid: %s", strerror(errno));
    }
    if (WIFSTOPPED(status)) {
      raise(WSTOPSIG(status));
      kill(child, SIGCONT);
    } else if (WIFSIGNALED(status)) {
      prctl(PR_SET_DUMPABLE, 0); /* no core file of this process */
      signal(WTERMSIG(status), SIG_DFL);
      raise(WTERMSIG(status));
      return 128 + WTERMSIG(status);
    } else {
      return WEXITSTATUS(status);
    }
  }
}

int main(int count, char **arguments) {
  if (count < 5) die(1, "usage: enter STATE HOST USER CMD...");
  state = arguments[1], host = arguments[2], user = arguments[3];
  if (access(text("%s/hosts/%s", state, host), F_OK) != 0) die(1, "no such host: '%s'", host);
  FILE *name = open_state("cgroup");
  if (name == NULL || fscanf(name, "%255s", cgroup) != 1) die(1, "%s/cgroup: not there", state);
  const char *term = getenv("TERM");
  int pid = host_pid();
  struct passwd *entry = find_user();
  gid_t groups[64];
  size_t group_count = find_groups(entry->pw_gid, groups, sizeof groups / sizeof *groups);
  char *const environment[] = {
      text("HOME=%s", entry->pw_dir),
      text("USER=%s", user),
      text("LOGNAME=%s", user),
      text("SHELL=%s", entry->pw_shell),
      entry->pw_uid == 0 ? "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
                         : "PATH=/usr/local/bin:/usr/bin:/bin",
      "LANG=C.UTF-8",
      text("TERM=%s", term == NULL ? "dumb" : term),
      NULL};
  close_range(3, ~0U, 0);
  umask(022);
  join_cgroups();
  enter_namespaces(pid);
  /* A process enters a PID name space by its children alone. */
  pid_t child = fork();
  if (child < 0) die(1, "fork: %s", strerror(errno));
  if (child > 0) return as_child(child);
  if (setgroups(group_count, groups) != 0 || setresgid(entry->pw_gid, entry->pw_gid, entry->pw_gid) != 0 ||
      setresuid(entry->pw_uid, entry->pw_uid, entry->pw_uid) != 0)
    die(1, "becoming %s: %s", user, strerror(errno));
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (chdir(entry->pw_dir) != 0) die(1, "%s: %s", entry->pw_dir, strerror(errno));
  environ = (char **)environment;
  execvp(arguments[4], arguments + 4);
  die(errno == ENOENT ? 127 : 126, "%s: %s", arguments[4], strerror(errno));
}

/* A SPANK plugin as clusters have that give each job private directories: its prolog makes /localscratch/USER.JOB.RESTART
 * and a directory of that name in /tmp and /dev/shm; each step gets a mount name space in which the first lies over
 * /var/tmp and the others over /tmp and /dev/shm; tasks get the variables; its epilog removes all of it. */
#define _GNU_SOURCE
#include <ftw.h>
#include <pwd.h>
#include <sched.h>
#include <slurm/slurm.h>
#include <slurm/spank.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

SPANK_PLUGIN(job_mounts, 1)

static const char *const k_private[] = {"/tmp", "/dev/shm"};
#define PRIVATE_COUNT (sizeof k_private / sizeof *k_private)

struct job {
  uid_t uid;
  gid_t gid;
  char name[256]; /* USER.JOB.RESTART */
};

static int know(spank_t spank, struct job *job) {
  uint32_t id = 0, restart = 0;
  const struct passwd *user;
  if (spank_get_item(spank, S_JOB_ID, &id) != ESPANK_SUCCESS ||
      spank_get_item(spank, S_JOB_UID, &job->uid) != ESPANK_SUCCESS ||
      (user = getpwuid(job->uid)) == NULL)
    return -1;
  job->gid = user->pw_gid;
  if (spank_get_item(spank, S_SLURM_RESTART_COUNT, &restart) != ESPANK_SUCCESS) restart = 0;
  snprintf(job->name, sizeof job->name, "%s.%u.%u", user->pw_name, id, restart);
  return 0;
}

static const char *in(const char *place, const struct job *job) {
  static char path[4096];
  snprintf(path, sizeof path, "%s/%s", place, job->name);
  return path;
}

static int make(const char *path, const struct job *job) {
  struct stat info;
  if (stat(path, &info) != 0 && mkdir(path, 0750) != 0) return -1;
  return chown(path, job->uid, job->gid);
}

int slurm_spank_job_prolog(spank_t spank, int argc, char **argv) {
  struct job job;
  (void)argc, (void)argv;
  if (know(spank, &job) != 0 || make(in("/localscratch", &job), &job) != 0) return -1;
  for (size_t i = 0; i < PRIVATE_COUNT; ++i)
    if (make(in(k_private[i], &job), &job) != 0) return -1;
  return 0;
}

int slurm_spank_init_post_opt(spank_t spank, int argc, char **argv) {
  struct job job;
  uint32_t step = 0;
  (void)argc, (void)argv;
  if (!spank_remote(spank)) return 0;
  if (spank_get_item(spank, S_JOB_STEPID, &step) != ESPANK_SUCCESS) return 0;
  if (step > SLURM_MAX_NORMAL_STEP_ID && step != SLURM_BATCH_SCRIPT && step != SLURM_INTERACTIVE_STEP) return 0;
  if (know(spank, &job) != 0 || mount("", "/", "", MS_REC | MS_SHARED, "") != 0 || unshare(CLONE_NEWNS) != 0 ||
      mount("", "/", "", MS_REC | MS_SLAVE, "") != 0 ||
      mount(in("/localscratch", &job), "/var/tmp", "none", MS_BIND, NULL) != 0) {
    slurm_error("job_mounts: %m");
    return -1;
  }
  for (size_t i = 0; i < PRIVATE_COUNT; ++i)
    if (mount(in(k_private[i], &job), k_private[i], "none", MS_BIND, NULL) != 0) {
      slurm_error("job_mounts: %s: %m", k_private[i]);
      return -1;
    }
  return 0;
}

int slurm_spank_task_init(spank_t spank, int argc, char **argv) {
  struct job job;
  (void)argc, (void)argv;
  if (know(spank, &job) != 0) return -1;
  spank_setenv(spank, "SLURM_TMPDIR", in("/localscratch", &job), 1);
  spank_setenv(spank, "XDG_RUNTIME_DIR", in("/localscratch", &job), 1);
  return 0;
}

static int take_away(const char *path, const struct stat *info, int kind, struct FTW *place) {
  (void)info, (void)kind, (void)place;
  remove(path);
  return 0;
}

int slurm_spank_job_epilog(spank_t spank, int argc, char **argv) {
  struct job job;
  (void)argc, (void)argv;
  if (know(spank, &job) != 0) return -1;
  nftw(in("/localscratch", &job), take_away, 64, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
  for (size_t i = 0; i < PRIVATE_COUNT; ++i)
    nftw(in(k_private[i], &job), take_away, 64, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
  return 0;
}

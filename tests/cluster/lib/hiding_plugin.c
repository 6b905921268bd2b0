/* A SPANK plugin that does to its task what pyxis does: it enters a mount namespace in which the
 * host's /run is not there. */
#define _GNU_SOURCE
#include <sched.h>
#include <slurm/spank.h>
#include <sys/mount.h>
#include <unistd.h>

SPANK_PLUGIN(hiding, 1)

/* In a user namespace of its own, because it runs as the user. */
int slurm_spank_task_init(spank_t spank, int argc, char **argv) {
  (void)spank;
  (void)argc;
  (void)argv;
  if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0 ||
      mount("tmpfs", "/run", "tmpfs", 0, "mode=755") != 0) {
    slurm_error("hiding: cannot hide /run: %m");
    return -1;
  }
  return 0;
}

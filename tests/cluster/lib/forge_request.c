/* A SPANK plugin that a user can bring along: puts the file named by $FORGED_REQUEST into the job as
 * the request that only nodestage's own plugin should make. */
#include <slurm/spank.h>
#include <stdio.h>
#include <stdlib.h>

SPANK_PLUGIN(forge, 1)

int slurm_spank_init_post_opt(spank_t spank, int argc, char **argv) {
  (void)argc;
  (void)argv;
  const char *path = getenv("FORGED_REQUEST");
  FILE *file = path == NULL ? NULL : fopen(path, "r");
  if (file == NULL) return 0;
  static char text[4 << 20];
  const size_t size = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[size] = '\0';
  if (spank_job_control_setenv(spank, "NODESTAGE_SPEC", text, 1) != ESPANK_SUCCESS) {
    slurm_error("forge: refused by Slurm");
    return -1;
  }
  return 0;
}

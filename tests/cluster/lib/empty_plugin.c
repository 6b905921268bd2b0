/* A SPANK plugin with the hooks of nodestage's, all empty: what any plugin costs. */
#include <slurm/spank.h>

SPANK_PLUGIN(empty, 1)

int slurm_spank_init(spank_t spank, int argc, char **argv) { return 0; }
int slurm_spank_init_post_opt(spank_t spank, int argc, char **argv) { return 0; }
int slurm_spank_job_prolog(spank_t spank, int argc, char **argv) { return 0; }
int slurm_spank_job_epilog(spank_t spank, int argc, char **argv) { return 0; }
int slurm_spank_task_init(spank_t spank, int argc, char **argv) { return 0; }
int slurm_spank_task_exit(spank_t spank, int argc, char **argv) { return 0; }

#include "cli/help_text.hpp"

namespace nodestage::help {

const char* const k_command =
    R"(nodestage run --stage-dataset=data.tar.gz --stage-out=results:out -- ./train.sh

Data on local disk before a job's first line runs, results back when it ends.
Usage: nodestage COMMAND [options]     nodestage COMMAND --help tells the rest

  run       a job's whole life here, without Slurm: stage, run a command,
            stage out, clean
  status    jobs that the daemon of this node knows: yours, or root: all
  wait      inside a job: until datasets of it are in place on this node
  held      your results that could not be delivered and are kept on this node
  recover   copy what a job could not deliver to a directory, and let it go

  -h,--help    --version

Manual: man 1 nodestage (this command), man 7 nodestage (the options of sbatch)
)";

const char* const k_run =
    R"(nodestage run --stage-dataset=data.tar.gz --stage-out=results:out -- ./train.sh

The whole life of a job without Slurm and without root: a private directory,
data into it, COMMAND with SLURM_TMPDIR and NODESTAGE_DATASET set, results back,
everything removed.
Usage: nodestage run [options] -- COMMAND...

  --stage-dataset=SOURCE[:DEST][,key[=value]]...   may be repeated
  --stage-venv=SOURCE[:DEST][,key[=value]]...      active for COMMAND
  --stage-out=SOURCE:TARGET[,key[=value]]...       may be repeated
  --tmpdir=DIR   where the directory is made; default: $TMPDIR, else /tmp
  -h,--help

Exit code: COMMAND's; 128 + n: signal n ended it; 123: COMMAND did well, but a
result could not be delivered and is kept (it says where); 125: wrong arguments,
or the staging failed, and COMMAND was not run; 126, 127: COMMAND cannot be run,
is not found. SIGINT, SIGTERM and SIGHUP go to COMMAND; a second one ends all.
All keys and patterns: man 7 nodestage
)";

}  // namespace nodestage::help

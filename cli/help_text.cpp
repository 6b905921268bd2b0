#include "cli/help_text.hpp"

namespace nodestage::help {

const char* const k_command =
    R"(nodestage run --stage-dataset=data.tar.gz --stage-out=results:out -- ./train.sh

Data on local disk before a job's first line runs, results back when it ends.
Usage: nodestage VERB [options]     nodestage help VERB tells the rest

  run       a job's whole life here, without Slurm: stage, run a command,
            stage out, clean
  plan      what staging would be like: how much, how long, what would be faster
  pack      a directory as an archive that is extracted in parallel
  status    how the staging of your jobs goes, here or on all nodes of one
  wait      inside a job: until datasets of it are in place on this node
  held      your results that could not be delivered and are kept on this node
  recover   copy what a job could not deliver to a directory, and let it go
  report    when what happened to a job on its nodes, as a table and a drawing
  doctor    what on this host keeps staging from working, and what to do

  -h, --help    -V, --version

Manual: man 1 nodestage (this command), man 7 nodestage (the options of sbatch)
)";

const char* const k_run =
    R"(nodestage run --stage-dataset=data.tar.gz --stage-out=results:out -- ./train.sh

The whole life of a job without Slurm and without root: a private directory,
data into it, COMMAND with SLURM_TMPDIR and NODESTAGE_DATASET set, results back,
everything removed.
Usage: nodestage run [options] [--] COMMAND...

  --stage-dataset=SOURCE[:DEST][,key[=value]]...   may be repeated
  --stage-venv=SOURCE[:DEST][,key[=value]]...      active for COMMAND
  --stage-out=SOURCE:TARGET[,key[=value]]...       may be repeated
  --stage-wait=WHEN   as in a job script; here COMMAND waits for all
  --tmpdir=DIR   where the directory is made; default: $TMPDIR, else /tmp
  -h, --help

Exit code: COMMAND's; 128 + n: signal n ended it; 123: COMMAND did well, but a
result could not be delivered and is kept (it says where); 125: wrong arguments,
or the staging failed, and COMMAND was not run; 126, 127: COMMAND cannot be run,
is not found. SIGINT, SIGTERM and SIGHUP go to COMMAND; a second one ends all.
All keys and patterns: man 7 nodestage
)";

const char* const k_plan = R"(nodestage plan --stage-dataset=data.tar.gz --stage-out=results:out_%j

What staging would be like, with nothing changed: for each item what it is, how
many bytes and files, how it is read (in parallel or not, and why), the local
disk it needs, about how long it takes, and what would be faster.
Usage: nodestage plan [options]

  --stage-dataset=SOURCE[:DEST][,key[=value]]...   may be repeated
  --stage-venv=SOURCE[:DEST][,key[=value]]...
  --stage-out=SOURCE:TARGET[,key[=value]]...       may be repeated
  --json         for programs
  -h, --help

Each source is looked at for about a second: the time is an estimate for this
host, now. Numbers that were not counted say "about" or "more than".
Exit code: 0; 1: an item could not be staged as it is now (FAULT says why);
2: wrong arguments.
All keys and patterns: man 7 nodestage
)";

const char* const k_pack = R"(nodestage pack data -o data.tar.zst

The contents of a directory as one archive that any tar reads, and that staging
extracts with all its threads. It appears under its name when it is whole and on
disk, or not at all. Sockets, FIFOs and devices are left out.
Usage: nodestage pack [options] DIR -o FILE

  -o,--output=FILE   .tar.zst: compressed by all threads, in independent frames
                     .tar: as it is, for data that do not compress
  --mtime=MOMENT     for all entries, instead of each its own: 2026-11-21,
                     2026-11-21T15:30:00 (UTC) or @SECONDS since 1970
  --force            replace FILE if it is there
  -h, --help

Names are sorted, and owners are not kept: equal trees with equal times make
equal archives.
Exit code: 0; 1: it could not be made, and nothing is left; 2: wrong arguments;
128 + n: signal n ended it, and nothing is left.
)";

const char* const k_status = R"(nodestage status --watch 4711

How the staging of jobs goes, or their stage-out: for each node and item the
state, bytes, files, rate and time left. Your own jobs; root: all jobs.
Usage: nodestage status [options] [JOBID]

  JOBID          on a node of the job what its daemon knows; elsewhere each node
                 of the running job is asked by a short step (srun --overlap).
                 Of an array: JOBID_TASK. Without it: all jobs of this node
  --here         only the daemon of this node, never Slurm
  --json         for programs
  --watch        again and again, until nothing changes any more: every 2 s,
                 by Slurm every 10 s
  --socket=PATH  the daemon's socket
  -h, --help

Why a staging failed is in the job's own output, too.
Exit code: 0, also when the job is pending; 1: a daemon, a node or Slurm does
not answer; 2: wrong arguments; 3: the job is not yours, not known, or over.
)";

const char* const k_report = R"(nodestage report 4711 --html=report.html

When what happened to a job, while it runs or afterwards: for each node how long
it was queued, staged, waited for other nodes, ran, staged out; for each item
when it was read and finished. From what its nodes have kept.
Usage: nodestage report [options] JOBID[.RESTART]

  --html=FILE        a page with a drawing is written, too
  --json             for programs
  --node=NODE[,...]  ask these nodes only
  --here             what this node knows, without Slurm
  --socket=PATH      the daemon's socket
  -h, --help

The job's nodes are asked by srun: with a step in the job while it runs, and
later with a job of one short task on each, for which they must have a CPU free
within a minute. A job of the one node that this is needs neither.
Exit code: 0; 1: nobody could be asked; 2: wrong arguments; 3: no record of such
a job of yours.
)";

const char* const k_wait = R"(nodestage wait images

Inside a job: waits until datasets of it are in place on this node. Those with
the key `async` are so only after the job has begun.
Usage: nodestage wait [options] [NAME...]

  NAME           as in NODESTAGE_DATASET_<NAME>, or a place below $SLURM_TMPDIR;
                 without one: all of the job's datasets
  --quiet        say nothing but why it failed
  --socket=PATH  the daemon's socket
  -h, --help

Exit code: 0; 1: a dataset could not be staged, and why is said; 2: wrong
arguments, or no job of yours is staged here.
)";

const char* const k_held = R"(nodestage held

Your results that could not be delivered and are kept on this node, with the
reason, until when, and when delivery is tried again. Root: everybody's.
Usage: nodestage held [options]

  --socket=PATH  the daemon's socket
  -h, --help

On another node: srun -w NODE -N1 -n1 nodestage held
To get them out: nodestage recover
Exit code: 0; 1: the daemon does not answer; 2: wrong arguments.
)";

const char* const k_recover = R"(nodestage recover 4711 rescued --node=n12

Copies what a job could not deliver to a directory; the node then keeps it no
longer.
Usage: nodestage recover [options] JOBID[.RESTART] DIR

  JOBID          the job, as `nodestage held` shows it
  DIR            made if need be
  --node=NODE    the node that holds it, reached by srun
  --socket=PATH  the daemon's socket
  -h, --help

Exit code: 0; 1: it could not be copied, and stays held; 2: wrong arguments, or
nothing of that job is held for you here.
)";

const char* const k_doctor = R"(nodestage doctor

What on this host keeps staging from working, and what to do about it: Slurm's
configuration, the plugin, the daemon, the disk, cgroups, the sandbox.
Usage: nodestage doctor [options]

  --host=login|compute  what this host is; default: as it looks
  --socket=PATH         the daemon's socket
  -h, --help

Exit code: 0; 1: there are problems; 2: wrong arguments.
)";

}  // namespace nodestage::help

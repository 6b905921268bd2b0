#include "cli/base/verbs.hpp"

namespace nodestage::help {

const char* const k_command =
    R"(nodestage run --stage-dataset=data.tar.gz --stage-out=results:out -- ./train.sh

Copies data to local disk before a job starts, and results back when it ends.
Usage: nodestage VERB [options]     nodestage help VERB describes a verb

  run       do the work of a whole job here, without Slurm: stage, run a
            command, stage out, clean up
  plan      forecast staging: how much, how long, what would be faster
  pack      pack a directory into an archive that is extracted in parallel
  status    show the staging of your jobs, here or on all nodes of a job
  wait      inside a job: wait until its datasets are in place on this node
  push      inside a job: deliver its results now, while it goes on
  held      list your results that could not be delivered and are kept here
  recover   copy a job's held results to a directory, and stop holding them
  cache     list or remove the `shared` items that this node keeps for your jobs
  report    show what happened to a job on its nodes, and when, with a drawing
  doctor    find what keeps staging from working on this host, and what to do

  -h, --help    -V, --version [--verbose]

Manual: man 1 nodestage (this command), man 7 nodestage (the options of sbatch)
)";

const char* const k_run =
    R"(nodestage run --stage-dataset=data.tar.gz --stage-out=results:out -- ./train.sh

Does the work of a whole job without Slurm and without root: creates a private
directory, stages data into it, runs COMMAND with SLURM_TMPDIR and
NODESTAGE_DATASET set, copies results back, and removes everything.
Usage: nodestage run [options] [--] COMMAND...

  --stage-dataset=SOURCE[:DEST][,key[=value]]...   may be repeated
  --stage-venv=SOURCE[:DEST][,key[=value]]...      active for COMMAND
  --stage-out=SOURCE:TARGET[,key[=value]]...       may be repeated
  --stage-wait=WHEN   as in a job script; here COMMAND waits for all
  --tmpdir=DIR   the parent of the directory; default: $TMPDIR, else /tmp
  -h, --help

Exit code: COMMAND's; 128 + n: signal n stopped it; 123: COMMAND succeeded, but
a result could not be delivered and is kept (a message says where); 125: wrong
arguments, or staging failed, and COMMAND was not run; 126, 127: COMMAND cannot
be run, is not found. SIGINT, SIGTERM and SIGHUP go to COMMAND; a second one
(another, or the same after two seconds) stops everything.
All keys and patterns: man 7 nodestage
)";

const char* const k_plan = R"(nodestage plan --stage-dataset=data.tar.gz --stage-out=results:out_%j

Forecasts staging without changing anything: for each item, what it is, how many
bytes and files, how it is read (in parallel or not, and why), the local disk
space that it needs, about how long it takes, and what would be faster.
Usage: nodestage plan [options]

  --stage-dataset=SOURCE[:DEST][,key[=value]]...   may be repeated
  --stage-venv=SOURCE[:DEST][,key[=value]]...
  --stage-out=SOURCE:TARGET[,key[=value]]...       may be repeated
  --array=INDICES  of the job, as for sbatch: %a in a source is each of them
  --json         print JSON
  --socket=PATH
  -h, --help

Each source is examined for about a second: the time is an estimate for this
host now. Numbers that were not counted say "about" or "more than". On a compute
node it says whether an item with the key `shared` is there already, and whether
all of it fits there now.
Exit code: 0; 1: an item could not be staged now (FAULT says why); 2: wrong
arguments.
All keys and patterns: man 7 nodestage
)";

const char* const k_pack = R"(nodestage pack data -o data.tar.zst

Packs a directory's contents into one archive that every tar can read, and that
staging extracts with all its threads. It gets its name once it is complete and
on disk, or not at all. Sockets, FIFOs and devices are omitted.
Usage: nodestage pack [options] DIR -o FILE
       nodestage pack [options] --image FILE DIR|TAR

  -o,--output=FILE   .tar.zst: compressed by all threads, in independent frames
                     .tar: not compressed, for data that does not compress
  --image=FILE       .sqsh: a squashfs image, which the key mount of
                     --stage-dataset mounts; mksquashfs makes it
  --mtime=MOMENT     set this time for all entries: 2026-11-21,
                     2026-11-21T15:30:00 (UTC) or @SECONDS since 1970
  --dereference      pack what links that lead out of DIR point to
  --force            replace FILE if it exists
  -h, --help

Names are sorted, and owners are not kept: equal trees with equal times give
equal archives.
Exit code: 0; 1: it could not be made, and nothing is left; 2: wrong arguments;
128 + n: signal n stopped it, and nothing is left.
)";

const char* const k_status = R"(nodestage status --watch 4711

Shows the staging or stage-out of your jobs (root: all jobs): for each node and
item, the state, bytes, files, rate and time left.
Usage: nodestage status [options] [JOBID]

  JOBID          on a node of the job, ask its daemon; elsewhere, ask each node
                 of the running job with a short step (srun --overlap), or
                 show what Slurm and the job's output say of one that has ended.
                 For an array: JOBID_TASK. Without it: all jobs of this node
  --here         ask only the daemon of this node, never Slurm
  --json         print JSON
  --watch        repeat until nothing changes any more: every 2 s, with Slurm
                 every 10 s
  --socket=PATH  the daemon's socket
  -h, --help

Exit code: 0, also when JOBID is pending, running, or delivering; 1: it, its
staging or a delivery of its results at its end failed, or a daemon, a node or
Slurm does not answer; 2: wrong arguments; 3: it is not yours, or not known.
)";

const char* const k_report = R"(nodestage report 4711 --html=report.html

Shows what happened to a job, and when, during its run or afterwards: for each
node, how long it was queued, staged, waited for other nodes, ran, and staged
out; for each item, when it was read and finished. Uses the nodes' records.
Usage: nodestage report [options] JOBID[_TASK][.RESTART]

  --html=FILE        also write a page with a drawing
  --json             print JSON
  --node=NODE[,...]  ask only these nodes
  --here             ask only this node, without Slurm
  --socket=PATH      the daemon's socket
  -h, --help

srun asks the job's nodes: with a step of the job while it runs, and later with
jobs of one short task on each node, which need a free CPU there within a
minute. Nodes that do not answer are named, and the others reported. For a job
on this node alone, srun is not used.
Exit code: 0; 1: no node could be asked; 2: wrong arguments; 3: no record of
such a job of yours.
)";

const char* const k_wait = R"(nodestage wait images

Inside a job: waits until its datasets are in place on this node. A dataset with
the key `async` can arrive after the job has started.
Usage: nodestage wait [options] [NAME...]

  NAME           as in NODESTAGE_DATASET_<NAME>, or a path below $SLURM_TMPDIR;
                 without one: all of the job's datasets
  --quiet        print nothing but the cause of a failure
  --socket=PATH  the daemon's socket
  -h, --help

Exit code: 0; 1: a dataset could not be staged (a message says why); 2: wrong
arguments, or no job of yours is staged here.
)";

const char* const k_push = R"(nodestage push results

Inside a job with --stage-out: delivers this node's outputs as they are now, and
waits until they are in their targets and synced there. It copies only what has
changed since the last delivery. The job goes on meanwhile.
Usage: nodestage push [options] [SOURCE...]

  SOURCE         as in --stage-out, or that path below $SLURM_TMPDIR; without
                 one: all of the job's outputs
  --no-wait      only ask for it
  --socket=PATH  the daemon's socket
  -h, --help

On all nodes of a job: srun --ntasks-per-node=1 nodestage push
A file that is being written is left for the next delivery, so the target has
whole files only: write a file under another name, and rename it when complete.
Exit code: 0; 1: something could not be delivered now (a message says why; the
job's end delivers it); 2: wrong arguments, or no job of yours is staged here.
)";

const char* const k_held = R"(nodestage held

Lists your results that could not be delivered and are kept on this node, with
the reason, the expiry, and the next try. Root: the results of all users.
Usage: nodestage held [options]

  --all-nodes        a table of all nodes that you can use, asked by short jobs
                     of srun as `nodestage report` does
  --node=NODE[,...]  the same, of these nodes
  --socket=PATH      the daemon's socket
  -h, --help

To copy them elsewhere: nodestage recover
Exit code: 0, also if some of the nodes did not answer; 1: no daemon answers;
2: wrong arguments.
)";

const char* const k_cache = R"(nodestage cache

Lists your items with the key `shared` that this node keeps for your further
jobs: source, size, age, and how many jobs use each now. They go when space is
needed. Root: the items of all users.
Usage: nodestage cache [options]
       nodestage cache --drop [NAME...]

  NAME           as the list shows it
  --drop         remove these items, or all of yours; what jobs use stays
  --json         print JSON
  --all-nodes    list those of all nodes that you can use, asked by short jobs
                 of srun as `nodestage report` does
  --node=NODE[,...]  the same, of these nodes
  --socket=PATH  the daemon's socket
  -h, --help

On another node: srun -w NODE -N1 -n1 nodestage cache --drop
Exit code: 0, also if some of the nodes did not answer; 1: something stays
because a job uses it, or no daemon answers; 2: wrong arguments, or this node
keeps nothing of that NAME.
)";

const char* const k_recover = R"(nodestage recover 4711 rescued --node=n12

Copies a job's held results to a directory; of a job of several nodes, those of
each to DIR/NODE. No other file of the same name is replaced. The node then no
longer keeps them.
Usage: nodestage recover [options] JOBID[.RESTART] DIR

  JOBID              the job, as `nodestage held` shows it
  DIR                created if it does not exist
  --all-nodes        from each node that holds results of the job, reached with
                     srun
  --node=NODE[,...]  from these nodes
  --socket=PATH      the daemon's socket
  -h, --help

Exit code: 0; 1: the results could not be copied, and stay held; 2: wrong
arguments, or a node holds no results of such a job of yours.
)";

const char* const k_doctor = R"(nodestage doctor

Finds what keeps staging from working on this host, and says what to do: checks
Slurm's configuration, the plugin, the daemon, the disk, cgroups, the sandbox.
Usage: nodestage doctor [options]

  --host=login|compute  the kind of this host; default: detected
  --report=FILE         also write a report for a bug: versions, findings and
                        settings, without paths, users and hosts
  --socket=PATH         the daemon's socket
  -h, --help

Exit code: 0; 1: there are problems; 2: wrong arguments.
)";

}  // namespace nodestage::help

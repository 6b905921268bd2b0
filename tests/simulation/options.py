"""The options of a simulation."""
import argparse
import os
import random


def parse(about):
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--stage", default=os.environ.get("NODESTAGE_STAGE"), help="a DESTDIR of the installation (default: $NODESTAGE_STAGE)")
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--hours", type=float, default=8)
    parser.add_argument("--jobs", type=int, default=0, help="so many jobs, instead of --hours")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 31))
    parser.add_argument("--only", type=lambda text: [int(part) for part in text.split(",")], help="numbers of jobs")
    parser.add_argument("--array", type=int, default=0, metavar="TASKS", help="one array of so many tasks, instead of random jobs")
    parser.add_argument("--quick", action="store_true", help="8 nodes, 60 jobs")
    parser.add_argument("--in-flight", type=int, default=0, help="jobs at a time, or tasks of the array (default: 6 for each processor)")
    parser.add_argument("--fault-every", type=int, default=8, help="a fault after so many jobs, or tasks of the array (default: 8)")
    parser.add_argument("--growth", type=int, default=4096, help="KiB that the memory of a daemon may grow from the first quarter to the last")
    parser.add_argument("--patience", type=int, default=1800, help="seconds after which a job counts as hanging")
    parser.add_argument("--sample-every", type=int, default=20, help="seconds between samples")
    parser.add_argument("--out", help="a directory for the report (default: below the directory for temporary files)")
    parser.add_argument("--leave", action="store_true", help="leave the nodes as they are at the end, for --reuse")
    parser.add_argument("--reuse", action="store_true", help="the nodes are there, from a run with --leave")
    parser.add_argument("--keep", action="store_true", help="do not remove results that are right")
    parser.add_argument("--name", default="simulation", help="name of the cluster")
    options = parser.parse_args()
    if options.array and options.only:
        parser.error("--only is for random jobs")
    if not options.stage:
        parser.error("--stage is missing")
    if options.quick:
        options.nodes, options.jobs, options.sample_every, options.patience = 8, 60, 3, 300
    # Slurm forgets a job 120 s after its end, and to list thousands costs the machine what their tasks need.
    options.pause = 0.2
    if options.array:
        options.jobs, options.pause, options.patience = 1, 2, max(options.patience, 5 * options.array)
    # A starved machine needs longer than a job of a few seconds would.
    options.expire = 5 if options.quick else 60
    options.in_flight = options.in_flight or 6 * os.cpu_count()
    options.out = options.out or f"{os.environ.get('TMPDIR', '/var/tmp')}/nodestage-simulation-{options.seed}"
    return options

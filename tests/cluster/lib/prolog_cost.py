"""prolog_cost.py PAIRS, on a node: measures `slurmstepd spank prolog` and `... epilog` with nodestage's plugin and
with an empty one, in turns, and the differences within each pair. Its input from slurmd was saved in /tmp.

Measures wall-clock time, which other load on the machine affects, and CPU time."""
import os
import statistics
import subprocess
import sys
import time

PLUGSTACK = "/etc/slurm/plugstack.conf.d/nodestage.conf"
PLUGINS = {"ours": "spank_nodestage.so", "empty": "/usr/lib/empty_plugin.so", "missing": "/nowhere.so"}


def environment():
    with open("/tmp/prolog.env", "rb") as file:
        return dict(entry.split(b"=", 1) for entry in file.read().split(b"\0") if entry)


def run(hook, plugin, env):
    """(time, CPU time) in ms."""
    with open(PLUGSTACK, "w") as file:
        file.write(f"required {PLUGINS[plugin]}\n")
    with open("/tmp/prolog.stdin", "rb") as config:
        begin = time.perf_counter_ns()
        process = subprocess.Popen(["/usr/sbin/slurmstepd", "spank", hook], env=env, stdin=config,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        end = time.perf_counter_ns()
    process.returncode = status
    # Shows that what is measured loads the plugin at all.
    if (status == 0) != (plugin != "missing"):
        sys.exit(f"slurmstepd spank {hook} with the plugin {PLUGINS[plugin]} ended with status {status}")
    return (end - begin) / 1e6, (usage.ru_utime + usage.ru_stime) * 1e3


def measure(hook, pairs, env):
    runs = {"ours": [], "empty": []}
    run(hook, "missing", env)
    for number in range(pairs + 2):
        # Whoever comes first in a pair would have the colder caches.
        for plugin in ("ours", "empty") if number % 2 else ("empty", "ours"):
            runs[plugin].append(run(hook, plugin, env))
    texts = []
    for index, name in enumerate(("time", "CPU time")):
        ours, empty = ([one[index] for one in runs[plugin][2:]] for plugin in ("ours", "empty"))
        difference = statistics.median(a - b for a, b in zip(ours, empty))
        texts.append(f"{name}: ours {statistics.median(ours):.2f} ms, empty hooks {statistics.median(empty):.2f} ms, "
                     f"median of the differences {difference:.2f} ms")
    print(f"{hook} of a job without options, {pairs} pairs: " + "; ".join(texts))


def main():
    env = environment()
    with open(PLUGSTACK) as file:
        plugstack = file.read()
    try:
        for hook in ("prolog", "epilog"):
            measure(hook, int(sys.argv[1]), env)
    finally:
        with open(PLUGSTACK, "w") as file:
            file.write(plugstack)


main()

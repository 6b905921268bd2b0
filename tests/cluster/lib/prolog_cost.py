"""prolog_cost.py PAIRS, on a node: the time of `slurmstepd spank prolog` with nodestage's plugin and with
an empty one, in turns, and the differences within each pair. What slurmd gave it was kept in /tmp."""
import statistics
import subprocess
import sys
import time

PLUGSTACK = "/etc/slurm/plugstack.conf.d/nodestage.conf"
PLUGINS = {"ours": "spank_nodestage.so", "empty": "/usr/lib/empty_plugin.so"}


def environment():
    with open("/tmp/prolog.env", "rb") as file:
        return dict(entry.split(b"=", 1) for entry in file.read().split(b"\0") if entry)


def run(plugin, env, config):
    with open(PLUGSTACK, "w") as file:
        file.write(f"required {PLUGINS[plugin]}\n")
    begin = time.perf_counter_ns()
    subprocess.run(["/usr/sbin/slurmstepd", "spank", "prolog"], env=env, input=config, check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return (time.perf_counter_ns() - begin) / 1e6


def main():
    pairs = int(sys.argv[1])
    env = environment()
    with open("/tmp/prolog.stdin", "rb") as file:
        config = file.read()
    with open(PLUGSTACK) as file:
        plugstack = file.read()
    times = {"ours": [], "empty": []}
    try:
        for number in range(pairs + 2):
            # Whoever comes first in a pair would have the colder caches.
            for plugin in ("ours", "empty") if number % 2 else ("empty", "ours"):
                times[plugin].append(run(plugin, env, config))
    finally:
        with open(PLUGSTACK, "w") as file:
            file.write(plugstack)
    ours, empty = times["ours"][2:], times["empty"][2:]
    differences = [a - b for a, b in zip(ours, empty)]
    print(f"prolog of a job without options, {pairs} pairs: ours {statistics.median(ours):.2f} ms, empty hooks "
          f"{statistics.median(empty):.2f} ms, median of the differences {statistics.median(differences):.2f} ms")


main()

"""Samples of the nodes during a simulation: what the daemons hold, and what is left on nodes when no job is there."""
import os
import re
import time

import alerts

PLACES = ("/localscratch/.nodestage/trash", "/localscratch/.nodestage/hold", "/localscratch/.nodestage/status", "/var/lib/nodestage/jobs",
          "/run/nodestage/jobs")


def holds(pid):
    """Memory (KiB, now and at most), descriptors, threads, and start (ticks) of a process, or nothing if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            begun = int(file.read().rpartition(")")[2].split()[19])
        with open(f"/proc/{pid}/status", encoding="utf-8") as file:
            status = dict(line.split(":\t", 1) for line in file.read().splitlines() if ":\t" in line)
        return {"memory": int(status["VmRSS"].split()[0]), "peak": int(status["VmHWM"].split()[0]), "descriptors": len(os.listdir(f"/proc/{pid}/fd")), "threads": int(status["Threads"]),
                "begun": begun}
    except (OSError, KeyError):
        return None


def size_below(place):
    return sum(os.lstat(os.path.join(top, name)).st_size for top, _, names in os.walk(place) for name in names if os.path.lexists(os.path.join(top, name)))


def sample(cluster):
    """Of each node's daemon and peer: who it is and what it holds."""
    found = {"time": time.time(), "nodes": {}, "journal": 0, "log": 0}
    for node in cluster.nodes:
        processes = {}
        for pid, name in cluster.service(node).items():
            kind = {"nodestaged": "daemon", "nodestage-peer": "peer"}.get(name)
            held = holds(pid) if kind else None
            # A child that the daemon has just forked has its name, too: the oldest is the daemon. Numbers of processes start again.
            if held and (kind not in processes or held["begun"] < processes[kind]["begun"]):
                processes[kind] = {"pid": pid, **held}
        found["nodes"][node] = processes
        found["journal"] += size_below(f"{cluster.root(node)}/var/lib/nodestage/jobs")
        found["log"] += size_below(f"{cluster.root(node)}/var/log/nodestage")
    return found


def left_on(cluster, node):
    """What a job has left on a node without jobs, as paths and names."""
    seen = cluster.seen(node, "")
    left = [f"/localscratch/{name}" for name in os.listdir(f"{seen}/localscratch") if name not in (".nodestage", ".nodestage-cache")]
    for place in PLACES:
        if os.path.isdir(seen + place):
            left += [f"{place}/{name}" for name in os.listdir(seen + place)]
    left += [f"cgroup {name}" for name in cluster.worker_cgroups(node)]
    left += [f"process {pid} {name}" for pid, name in cluster.service(node, "nodestage-workers").items() if name == "nodestage-worke"]
    return left


def all_left(cluster):
    return {node: left for node in cluster.nodes if (left := left_on(cluster, node))}


def temporary_names(cluster):
    return [os.path.join(top, name) for top, places, names in os.walk(cluster.home("/home")) for name in names + places if name.startswith(".nodestage")]


def drained(cluster):
    """Why which nodes are drained, as Slurm says it."""
    return cluster.as_user("root", "sinfo", "--noheader", "--list-reasons")[1].strip().splitlines()


def messages(paths, pattern):
    """How often each message that matches stands in the logs; numbers and hosts are left out."""
    found = {}
    for path in paths:
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                lines = [line for line in file if re.search(pattern, line)]
        except OSError:
            continue
        for line in lines:
            text = re.sub(r"\bn?\d[\d.:T_-]*Z?\b", "N", line.strip())
            found[text] = found.get(text, 0) + 1
    return dict(sorted(found.items(), key=lambda entry: -entry[1]))


def metrics(cluster, node, used):
    """What the daemon of a node has written last, of the families `used`, and the age of that in seconds; nothing: no file."""
    path = cluster.seen(node, "/run/nodestage/nodestage.prom")
    try:
        with open(path, encoding="utf-8") as file:
            found = {series: value for series, value in alerts.parse(file.read()).items() if series.partition("{")[0] in used}
        return {**found, "age": time.time() - os.stat(path).st_mtime}
    except OSError:
        return None


def counters(cluster):
    """The sum over all nodes of the daemons' counters, since each daemon's start."""
    total = {}
    for node in cluster.nodes:
        try:
            with open(cluster.seen(node, "/run/nodestage/nodestage.prom"), encoding="utf-8") as file:
                for line in file:
                    if not line.startswith("#"):
                        name, value = line.rsplit(" ", 1)
                        total[name] = total.get(name, 0) + float(value)
        except OSError:
            pass
    return {name: value for name, value in total.items() if value and "_total" in name}

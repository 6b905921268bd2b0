"""What is done to the daemons and peers of a simulation while jobs run."""
import random
import subprocess

import cluster as clusters

UPGRADE = 'for file in /usr/sbin/nodestaged /usr/libexec/nodestage/*; do cp -p "$file" "$file.new" && mv "$file.new" "$file"; done'


class Faults:
    """What is done to daemons and peers, one at a time."""

    def __init__(self, run):
        self.run, self.pick = run, random.Random(f"{run.options.seed}.faults")
        # On every third node nothing is done.
        self.nodes = [node for number, node in enumerate(run.cluster.nodes) if number % 3]
        self.under_way = None

    def next(self):
        if self.under_way and self.under_way.poll() is None:
            return
        node, kind = self.pick.choice(self.nodes), self.pick.choice(("kill", "kill", "restart", "upgrade", "peer"))
        command = clusters.COMMAND
        script = {"kill": f"{command} daemon kill {node} && {command} daemon start {node}", "restart": f"{command} daemon restart {node}",
                  "upgrade": f"{command} exec {node} -- sh -c '{UPGRADE}' && {command} daemon restart {node}",
                  "peer": f"{command} exec {node} -- pkill -KILL -x nodestage-peer"}[kind]
        self.run.faults[kind] += 1
        self.under_way = subprocess.Popen(["bash", "-c", script], env=self.run.cluster.environment, stdout=subprocess.DEVNULL)

    def end(self):
        if self.under_way:
            self.under_way.wait()

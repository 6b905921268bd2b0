"""What is done to the daemons and peers of a simulation while jobs run."""
import random
import subprocess

import cluster as clusters

UPGRADE = 'for file in /usr/sbin/nodestaged /usr/libexec/nodestage/*; do cp -p "$file" "$file.new" && mv "$file.new" "$file"; done'

# One that was killed a moment ago is started again after a pause.
KILL_PEER = "until pkill -KILL -x nodestage-peer; do sleep 0.2; done"


class Faults:
    """What is done to daemons and peers, one at a time."""

    def __init__(self, run):
        self.run, self.pick = run, random.Random(f"{run.options.seed}.faults")
        # On every third node nothing is done.
        self.nodes = [node for number, node in enumerate(run.cluster.nodes) if number % 3]
        self.under_way, self.what = None, ()

    def next(self):
        if self.under_way and self.under_way.poll() is None:
            return
        self.note()
        node, kind = self.pick.choice(self.nodes), self.pick.choice(("kill", "kill", "restart", "upgrade", "peer"))
        command = clusters.COMMAND
        script = {"kill": f"{command} daemon kill {node} && {command} daemon start {node}", "restart": f"{command} daemon restart {node}",
                  "upgrade": f"{command} exec {node} -- sh -c '{UPGRADE}' && {command} daemon restart {node}",
                  "peer": f"{command} exec {node} -- timeout 60 sh -c '{KILL_PEER}'"}[kind]
        self.what = kind, node
        self.under_way = subprocess.Popen(["bash", "-c", script], env=self.run.cluster.environment, stdout=subprocess.DEVNULL)

    def note(self):
        """Waits for the last fault, and counts it if it took place."""
        if not self.under_way:
            return
        kind, node = self.what
        if self.under_way.wait() == 0:
            self.run.faults[kind] += 1
        else:
            self.run.faults_failed.append(f"the fault '{kind}' on {node} failed with exit code {self.under_way.returncode}")
        self.under_way = None

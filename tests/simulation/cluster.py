"""The cluster of a simulation, seen from the machine: its commands, its hosts' files and processes."""
import contextlib
import json
import os
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
COMMAND = os.path.join(HERE, "..", "cluster", "cluster")

# Runs commands for one user on the controller, so that each costs one process: a request and an answer a line.
AGENT = """
import json, subprocess, sys
for line in sys.stdin:
    words, text = json.loads(line)
    try:
        done = subprocess.run(words, input=text, capture_output=True, text=True, errors="replace", timeout=300)
        answer = [done.returncode, done.stdout, done.stderr]
    except subprocess.TimeoutExpired:
        answer = [124, "", f"{words[0]} had not ended after 300 s, and was killed"]
    print(json.dumps(answer), flush=True)
"""


class Agent:
    def __init__(self, cluster, user):
        self.user = user
        self.process = subprocess.Popen([COMMAND, "exec", "ctl", f"--user={user}", "--", "python3", "-u", "-c", AGENT],
                                        env=cluster.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, *words, text=""):
        """(exit code, output, errors) of a command."""
        answer = ""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps([words, text]) + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"simulation: the program that runs {self.user}'s commands on the controller has ended, at: {' '.join(words)}")
        return json.loads(answer)

    def end(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait()


class Cluster:
    def __init__(self, name, count):
        self.environment = dict(os.environ, NODESTAGE_CLUSTER=name)
        self.name, self.nodes = name, [f"n{number}" for number in range(1, count + 1)]
        self.state = self.call("dir").strip()
        self.agents, self.cgroup_name = {}, ""

    def call(self, *words):
        done = subprocess.run([COMMAND, *words], env=self.environment, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"simulation: cluster {' '.join(words)} failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    def start(self, stage, settings, conf, reuse):
        """`settings`: nodestaged.toml, in which {file_system} stands for the type of that of the homes."""
        if not reuse:
            self.call("down")
            self.call("up", f"--nodes={len(self.nodes)}", "--cpus=4", f"--stage={stage}", *(f"--slurm-conf={line}" for line in conf))
            self.wait_longer()
            for node in self.nodes:
                self.write(node, "/etc/nodestage/nodestaged.toml", settings.format(file_system=self.file_system()))
            self.call("daemon", "start", "all")
        self.agents = {user: Agent(self, user) for user in ("root", "alice", "bob")}

    def wait_longer(self):
        """Prologs wait a minute for a daemon: it is away when it is restarted, and slow when all nodes have one machine."""
        path = f"{self.state}/shared/slurm/plugstack.conf.d/nodestage.conf"
        with open(path, encoding="utf-8") as file:
            text = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace("required spank_nodestage.so", "required spank_nodestage.so begin_wait=60"))

    def stop(self):
        try:
            for agent in self.agents.values():
                agent.end()
        finally:
            self.call("down")

    def file_system(self):
        """The type of the one that the homes lie on."""
        return subprocess.run(["findmnt", "-n", "-o", "FSTYPE", "-T", self.state], capture_output=True, text=True, check=True).stdout.strip()

    def as_user(self, user, *words, text=""):
        return self.agents[user].run(*words, text=text)

    def root(self, host):
        """The host's tree on the machine's disk: /home and mounts are not in it."""
        return f"{self.state}/hosts/{host}/root"

    def seen(self, host, path):
        """What the host sees at that path."""
        return f"/proc/{self.pid(host)}/root{path}"

    def pid(self, host):
        """The first process of the host."""
        with open(f"{self.state}/hosts/{host}/pid", encoding="ascii") as file:
            return file.read().strip()

    def write(self, host, path, text):
        os.makedirs(os.path.dirname(self.seen(host, path)), exist_ok=True)
        with open(self.seen(host, path), "w", encoding="utf-8") as file:
            file.write(text)

    def home(self, path):
        """A path below /home, as root sees it from the machine."""
        return self.state + "/shared" + path

    def cgroup(self, node, service):
        """The cgroup of a service of the node, in the first hierarchy."""
        with open(f"{self.state}/hierarchies", encoding="utf-8") as file:
            mount = file.readline().split()[0]
        return f"{mount}/{self.own_cgroup(node)}/{node}/system.slice/{service}.service"

    def own_cgroup(self, node):
        """The name of the cgroup that has those of all hosts: its processes are in none but theirs."""
        if not self.cgroup_name:
            with open(f"/proc/{self.pid(node)}/cgroup", encoding="utf-8") as file:
                paths = [line.rstrip("\n").split(":", 2)[2] for line in file]
            self.cgroup_name = next(path.split("/")[1] for path in paths if path.startswith("/nodestage-"))
        return self.cgroup_name

    def service(self, node, name="nodestaged"):
        """The processes of a service of the node: pid -> name of the program."""
        found = {}
        try:
            with open(f"{self.cgroup(node, name)}/cgroup.procs", encoding="ascii") as file:
                pids = file.read().split()
        except OSError:
            pids = []
        for pid in pids:
            try:
                with open(f"/proc/{pid}/comm", encoding="utf-8") as file:
                    found[int(pid)] = file.read().strip()
            except OSError:
                pass  # It has just exited.
        return found

    def worker_cgroups(self, node):
        try:
            return [name for name in os.listdir(self.cgroup(node, "nodestage-workers")) if name.startswith("nodestage-worker-")]
        except OSError:
            return []

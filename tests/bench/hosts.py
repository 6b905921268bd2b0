"""The hosts of tests/bench/relay and relay_tree: network namespaces with a shared source, and a launcher on each."""
import argparse
import filecmp
import json
import os
import pwd
import secrets
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time

import report
from cluster import TOP, fail, run, wait_until

FILES = 16
NET = f"nsr{os.getpid()}"


class Network:
    """Namespaces NET-0, NET-1, … with the addresses 10.77.x.y, and NET with a bridge between them."""

    def __init__(self, hosts):
        self.hosts = hosts
        self.made = []

    def open(self):
        for name in [NET] + [f"{NET}-{host}" for host in range(self.hosts)]:
            run("ip", "netns", "add", name)
            self.made.append(name)
            run("ip", "-n", name, "link", "set", "lo", "up")
        run("ip", "-n", NET, "link", "add", "bridge", "type", "bridge")
        run("ip", "-n", NET, "link", "set", "bridge", "up")
        for host in range(self.hosts):
            there = f"{NET}-{host}"
            run("ip", "-n", NET, "link", "add", f"to{host}", "type", "veth", "peer", "name", "eth", "netns", there)
            run("ip", "-n", NET, "link", "set", f"to{host}", "master", "bridge", "up")
            run("ip", "-n", there, "address", "add", f"{address(host)}/16", "dev", "eth")
            run("ip", "-n", there, "link", "set", "eth", "up")

    def shape(self, rate):
        """Bytes per second, in each direction of each link; 0: unlimited."""
        for host in range(self.hosts):
            for name, link in ((NET, f"to{host}"), (f"{NET}-{host}", "eth")):
                subprocess.run(["tc", "-n", name, "qdisc", "del", "dev", link, "root"], capture_output=True, check=False)
                if rate:
                    run("tc", "-n", name, "qdisc", "add", "dev", link, "root", "tbf", "rate", f"{rate * 8}bit",
                        "burst", str(max(256 << 10, rate // 100)), "latency", "50ms")

    def close(self):
        for name in self.made:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def address(host):
    return f"10.77.{host // 200}.{host % 200 + 1}"


class Site:
    """Directories below one that is removed at the end: source, view-N, into-N, and the mounts on them."""

    def __init__(self, options):
        self.options = options
        self.top = tempfile.mkdtemp(prefix="nodestage-bench-relay-")
        os.chmod(self.top, 0o755)
        self.tree, self.source = f"{self.top}/tree", f"{self.top}/source"
        self.mounts = []
        self.server = None
        self.worker_log = open(options.log, "a", encoding="utf-8")  # pylint: disable=consider-using-with
        for name in ["tree", "source", "programs", "here", "into"] + [f"{what}-{n}" for n in range(options.hosts) for what in ("view", "into")]:
            os.mkdir(f"{self.top}/{name}", 0o755)
        self.programs = {}
        for name, path in (("nodestage-worker", "daemon/worker/nodestage-worker"), ("bench-relay", "tests/bench/bench-relay")):
            self.programs[name] = shutil.copy(find(options.build, path, name), f"{self.top}/programs/{name}")

    def make_source(self):
        self.mount("tree"), self.mount("source")
        each = self.options.size // FILES
        for number in range(FILES):
            with open(f"{self.tree}/part-{number:02}.bin", "wb") as file:
                for at in range(0, each, 1 << 20):
                    file.write(os.urandom(min(1 << 20, each - at)))
        with tarfile.open(f"{self.source}/data.tar", "w") as archive:
            for name in sorted(os.listdir(self.tree)):
                archive.add(f"{self.tree}/{name}", name)
        self.bytes = os.path.getsize(f"{self.source}/data.tar")
        run("chmod", "-R", "a+rX", self.tree, self.source)

    def mount(self, name):
        run("mount", "-t", "tmpfs", "-o", "mode=0755", "tmpfs", f"{self.top}/{name}")
        self.mounts.append(name)

    def unmount(self, name):
        subprocess.run(["umount", f"{self.top}/{name}"], capture_output=True, check=False)
        if name in self.mounts:
            self.mounts.remove(name)

    def serve(self, hosts, rate, delay=0):
        """One server with a mount point for each host, of which the kernel keeps nothing if there is a rate (0: unlimited)."""
        log = f"{self.top}/log"
        if os.path.exists(log):
            os.unlink(log)
        views = [f"{self.top}/view-{host}" for host in range(hosts)]
        program = find(self.options.build, "tests/bench/bench-slow-mount", "bench-slow-mount")
        self.server = subprocess.Popen([program, self.source, str(delay), str(delay), str(rate), log] + views)
        wait_until("the mounts of the source", lambda: all(os.path.ismount(view) for view in views))
        for host in range(hosts):
            self.mount(f"into-{host}")
            os.chown(f"{self.top}/into-{host}", self.options.uid, self.options.gid)

    def stop_serving(self, hosts):
        for host in range(hosts):
            self.unmount(f"into-{host}")
            self.unmount(f"view-{host}")
        if self.server:
            self.server.wait(60)
        self.server = None

    def reads(self):
        """(host, offset, bytes) of each read."""
        with open(f"{self.top}/log", encoding="ascii") as file:
            return [tuple(int(word) for word in line.split()) for line in file if not line.startswith("calls")]

    def calls(self):
        """Look-ups, opens and listings; once it serves no longer."""
        with open(f"{self.top}/log", encoding="ascii") as file:
            return int(file.readlines()[-1].removeprefix("calls "))

    def is_whole(self, host):
        there = f"{self.top}/into-{host}/data"
        names = sorted(os.listdir(self.tree))
        return sorted(os.listdir(there)) == names and all(filecmp.cmp(f"{self.tree}/{n}", f"{there}/{n}", shallow=False) for n in names)

    def close(self):
        if self.server:
            self.stop_serving(self.options.hosts)
        for name in list(self.mounts):
            self.unmount(name)
        shutil.rmtree(self.top, ignore_errors=True)


def find(build, path, name):
    for at in (f"{build}/{path}", f"{build}/{name}"):
        if os.path.exists(at):
            return at
    return fail(f"{name} is not built in {build}")


class Host:
    """The launcher on one host; all hosts see the source under one path."""

    def __init__(self, site, number, window, source="data.tar"):
        self.number = number
        self.port = 0
        script = ('mount --bind "$1/view-$2" "$1/here" && mount --bind "$1/into-$2" "$1/into" && exec setpriv --reuid="$3" --regid="$4" '
                  '--clear-groups "$1/programs/bench-relay" "$1/programs/nodestage-worker" "$1/here/$7" "$1/into" "$5" "$6" "$8" "$9"')
        options = site.options
        words = [site.top, number, options.uid, options.gid, options.threads, window, source, options.hosts, options.site_rate]
        self.process = subprocess.Popen(["ip", "netns", "exec", f"{NET}-{number}", "sh", "-c", script, "sh", *map(str, words)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=site.worker_log, text=True)

    def hear(self):
        line = self.process.stdout.readline().strip()
        if not line:
            fail(f"the launcher of host {self.number} ended with code {self.process.wait()} (see --log)")
        return line

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def end(self):
        self.process.kill()
        self.process.wait()


def lay_chain(hosts):
    """Who gets the source from whom: each host from the one before it that listens."""
    key, before = secrets.token_hex(32), None
    for host in hosts:
        host.port = int(host.hear().removeprefix("port "))
        if before is None:
            host.say(f"head {key}")
        else:
            host.say(f"link host{before.number} {address(before.number)} {before.port} {key}")
        if host.port:
            before = host


def stage_on(site, count, window, source, is_whole):
    """Result of each host, with the seconds from the start of all to its end; each one's tree is whole."""
    hosts = [Host(site, number, window, source) for number in range(count)]
    try:
        for host in hosts:
            if host.hear() != "here":
                fail("a launcher does not do as it should")
        begin = time.monotonic()
        for host in hosts:
            host.say("go")
        if window:
            lay_chain(hosts)
        results = [json.loads(host.hear()) for host in hosts]
        for host, result in zip(hosts, results):
            result["seconds"] = result.pop("ended") - begin
            if window:
                host.say("end")
                result["relay"] = json.loads(host.hear())
            host.process.wait()
    finally:
        for host in hosts:
            host.end()
    for number, result in enumerate(results):
        if result["code"] != 0 or not is_whole(number):
            fail(f"host {number}: not whole: {json.dumps(result)}")
    return results


def show_notes(results):
    for number, host in enumerate(results):
        if host.get("note") and " from node" not in host["note"]:
            print(f"          host {number}: {host['note']}", file=sys.stderr, flush=True)


def arguments(doc, hosts, rounds, quick):
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=hosts)
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of each worker (all cores)")
    parser.add_argument("--user", default="nobody", help="who runs the workers")
    parser.add_argument("--build", default=f"{TOP}/build/release", metavar="DIR", help="the programs (default: build/release)")
    parser.add_argument("--json", metavar="FILE", help="every sample into FILE")
    parser.add_argument("--log", metavar="FILE", default="/dev/null", help="what the workers log goes there")
    parser.add_argument("--quick", action="store_true", help=quick)
    return parser


def parsed(parser, **quick):
    """The options; those of `quick` with --quick."""
    options = parser.parse_args()
    if options.quick:
        vars(options).update(quick)
    entry = pwd.getpwnam(options.user)
    options.uid, options.gid = entry.pw_uid, entry.pw_gid
    if os.geteuid() != 0 or not os.path.exists("/dev/fuse") or options.uid == 0:
        fail("needs root, /dev/fuse, and an ordinary user (--user)")
    return options


def measure(site, options, ways, trial):
    """Samples of each way, in turns: another one is first in each round."""
    network, samples = Network(options.hosts), {name: [] for name in ways}
    before = os.getloadavg()[0]
    try:
        network.open()
        site.make_source()
        for at in range(options.rounds):
            names = list(ways)
            for name in names[at % len(names):] + names[:at % len(names)]:
                samples[name].append(trial(network, name))
    finally:
        site.close()
        network.close()
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"options": {name: value for name, value in vars(options).items() if name != "json"}, "machine": report.machine("/var/tmp"),
                       "load": [before, os.getloadavg()[0]], "samples": samples}, file, indent=1)
    return samples

"""For benches on a cluster of tests/cluster: its command, and commands on its hosts. What fails ends the bench."""
import argparse
import contextlib
import os
import subprocess
import sys
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COMMAND = f"{TOP}/tests/cluster/cluster"


def fail(text):
    sys.exit(f"{os.path.basename(sys.argv[0])}: {text}")


def run(*command, text=None):
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        fail(f"{' '.join(command)[:200]}: ended with code {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def wait_until(what, condition, seconds=60, step=0.2):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            fail(f"not so in time: {what}")
        time.sleep(step)


@contextlib.contextmanager
def cluster(name, stage, *options):
    """One node with the daemon, until the bench ends."""
    os.environ["NODESTAGE_CLUSTER"] = name
    try:
        run(COMMAND, "down")
        run(COMMAND, "up", "--nodes=1", "--daemon", f"--stage={stage}", *options)
        yield
    finally:
        subprocess.run([COMMAND, "down"], check=False, stdout=subprocess.DEVNULL)


def arguments(doc, **more):
    """The options of a bench: --stage, and `more` as name=(type, default, help)."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, (kind, default, words) in more.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, default=default, help=words)
    parser.add_argument("--stage", default=os.environ.get("NODESTAGE_STAGE"), help="a DESTDIR of the installation (default: $NODESTAGE_STAGE)")
    options = parser.parse_args()
    if not options.stage:
        parser.error("--stage is missing")
    options.stage = os.path.realpath(options.stage)
    return options


def on(host, *command, user=None, text=None):
    return run(COMMAND, "exec", host, *([f"--user={user}"] if user else []), "--", *command, text=text)


def processor_time(pid):
    """Seconds of a process of n1, and of its children that have ended."""
    stat = on("n1", "cat", f"/proc/{pid}/stat").rsplit(")", 1)[1].split()
    return [sum(int(value) for value in stat[at:at + 2]) / os.sysconf("SC_CLK_TCK") for at in (11, 13)]


def make_data():
    """data.tar in alice's home: 1 MB in 100 files."""
    on("ctl", "sh", "-c", "mkdir d && for i in $(seq 100); do head -c 10000 /dev/urandom >d/$i; done && tar cf data.tar d", user="alice")


class SlowMount:
    """On n1, alice's directory `source` at `there`, through bench-slow-mount with 1 ms for each look-up, open, listing and read."""

    def __init__(self, program, source, there, user):
        self.words = [COMMAND, "exec", "n1", f"--user={user}", "--", program, source, "1000", "1000", "-", "/dev/null", there]
        self.there = there
        self.process = None

    def anew(self):
        self.end()
        self.process = subprocess.Popen(self.words)
        wait_until("the mount", lambda: f" {self.there} fuse" in on("n1", "cat", "/proc/mounts"))

    def end(self):
        if self.process:
            on("n1", "umount", self.there)
            self.process.wait()
            self.process = None


def far_arguments(doc, **more):
    """The options of a bench with a SlowMount and a table in the documents."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, (default, words) in more.items():
        parser.add_argument(f"--{name}", type=int, default=default, help=words)
    parser.add_argument("--stage", metavar="DIR", help="an installation of nodestage (default: builds the preset 'release')")
    parser.add_argument("--slow-mount", metavar="FILE", default=f"{TOP}/build/release/tests/bench/bench-slow-mount")
    parser.add_argument("--docs", action="store_true", help="put the table into docs/performance.md")
    parser.add_argument("--note", default="", help="a sentence above the table")
    return parser


def built(options):
    """Of those options: the installation and the program of the mount are there."""
    stage = options.stage or run("bash", "-c", f". {TOP}/scripts/lib.bash && build release >&2 && install_stage release").strip()
    if not os.access(options.slow_mount, os.X_OK):
        fail(f"{options.slow_mount} is missing: configure with -DNODESTAGE_BENCH=ON, with libfuse3-dev")
    options.stage, options.slow_mount = os.path.realpath(stage), os.path.realpath(options.slow_mount)

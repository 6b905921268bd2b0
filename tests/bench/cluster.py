"""For benches on a cluster of tests/cluster: its command, and commands on its hosts. What fails ends the bench."""
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


def on(host, *command, user=None, text=None):
    return run(COMMAND, "exec", host, *([f"--user={user}"] if user else []), "--", *command, text=text)


def processor_time(pid):
    """Seconds of a process of n1, and of its children that have ended."""
    stat = on("n1", "cat", f"/proc/{pid}/stat").rsplit(")", 1)[1].split()
    return [sum(int(value) for value in stat[at:at + 2]) / os.sysconf("SC_CLK_TCK") for at in (11, 13)]

"""What Slurm says of the jobs, and whether a job that is over ended as it must."""
import os
import re
import subprocess
import tempfile

GOES_ON = {"PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "COMPLETING", "STOPPED", "REQUEUED", "RESIZING"}
FIELD = re.compile(r"(?:^| )(JobId|ArrayJobId|ArrayTaskId|HetJobId|JobState|ExitCode|Reason|NodeList)=(\S*)")


class Followed:
    """A job that was submitted."""

    def __init__(self, job, id, now):
        self.job, self.id, self.since = job, id, now
        self.cancelled, self.parts, self.nodes = False, {}, set()
        self.held_since, self.released = None, False

    def ended(self):
        return sum(part["JobState"] not in GOES_ON for part in self.parts.values())

    def over(self):
        return self.ended() == len(self.parts) >= self.job.elements


def look(cluster, followed):
    """Notes what Slurm says now. `followed`: id of the job, of the array, or of the first component -> Followed."""
    code, text, _ = cluster.as_user("root", "scontrol", "--oneliner", "show", "job")
    for line in text.splitlines() if code == 0 else []:
        fields = dict(reversed(FIELD.findall(line)))  # of a name that comes twice, the first counts
        id = fields.get("HetJobId") or fields.get("ArrayJobId") or fields.get("JobId", "")
        job = followed.get(id)
        if job and "JobState" in fields and not re.search(r"[-,%\[]", fields.get("ArrayTaskId", "")):
            job.parts[fields["JobId"]] = fields
            job.nodes.add(fields.get("NodeList", ""))


def filled(text, size):
    line = (text + "\n").encode()
    return (line * (size // len(line) + 1))[:size]


def unpacked(path, name):
    with tempfile.TemporaryDirectory() as place:
        subprocess.run(["tar", "xf", path, "-C", place], check=False, capture_output=True)
        found = [os.path.join(top, file) for top, _, files in os.walk(place) for file in files if file == name]
        return found[0] if len(found) == 1 else None, open(found[0], "rb").read() if len(found) == 1 else b""


def fault_of_result(path, wanted, may_be_absent):
    """Why a result is not as it must be, or nothing."""
    there = os.path.lexists(path)
    if wanted is None:
        return f"{path} is there" if there else None
    if not there:
        return None if may_be_absent else f"{path} is not there"
    if path.endswith(".tar.zst"):
        _, content = unpacked(path, "r")
    else:
        with open(path, "rb") as file:
            content = file.read()
    return None if content == filled(*wanted) else f"{path} has other contents: {len(content)} bytes, not {wanted[1]}"


def results_are_right(cluster, job):
    may_be_absent = job.whole_or_absent and not any("WRITTEN" in text for text in outputs(cluster, job))
    for path, wanted in job.results.items():
        fault = fault_of_result(cluster.home(path), wanted, may_be_absent)
        if fault:
            return fault
    return None


def outputs(cluster, job):
    place = cluster.home(f"/home/{job.user}/jobs")
    names = [f"{job.number}-{index}.txt" for index in range(1, job.elements + 1)] if job.kind == "array" else [f"{job.number}.txt"]
    found = []
    for name in names:
        try:
            with open(f"{place}/{name}", encoding="utf-8", errors="replace") as file:
                found.append(file.read())
        except OSError:
            found.append("")
    return found


def faults(cluster, followed):
    """What is wrong with a job that is over: a list of sentences."""
    job, found = followed.job, []
    for part in followed.parts.values():
        states = job.states
        # One that had ended before it was cancelled, or was cancelled before its script ran.
        if part["JobState"] not in states:
            found.append(f"{part['JobId']} ended as {part['JobState']} ({part['Reason']}), not {' or '.join(states)}")
        elif not job.cancel_after and part["ExitCode"].split(":")[0] != str(job.code):
            found.append(f"{part['JobId']} ended with exit code {part['ExitCode']}, not {job.code}")
    for text in outputs(cluster, job):
        found += [f"its output does not say '{part}'" for part in job.says if part not in text]
        found += [f"its output says '{line}'" for part in job.says_not for line in text.splitlines() if part in line]
    if not job.opens:
        fault = results_are_right(cluster, job)
        found += [fault] if fault else []
    return found


def fault_of_held(cluster, followed):
    """What is wrong with a job whose results were held, once they can be delivered; or nothing."""
    job = followed.job
    fault = results_are_right(cluster, job)
    if fault:
        return f"held, and not delivered: {fault}"
    there = os.path.exists(cluster.home(f"/home/{job.user}/jobs/nodestage-{followed.id}.txt"))
    return None if there else "its user has no notice of the held result"

"""Makes thousands of held results from one, while the daemon is stopped.

many_held.py make JOB COUNT RETRY_AT   job JOB's journal entry and held tree, COUNT times, as jobs 1000001 and
                                       on, each with its next try at that time (seconds since 1970; 0: never)
many_held.py remove                    removes what is left of them
"""
import json
import os
import shutil
import sys

FIRST = 1_000_001
JOBS = "/var/lib/nodestage/jobs"
AREA = "/localscratch/.nodestage"
HOLD = f"{AREA}/hold"


def make(job, count, retry_at):
    with open(f"{JOBS}/{job}.0.json", encoding="utf-8") as file:
        record = json.load(file)
    with open(f"{JOBS}/{job}.0.request", "rb") as file:
        request = file.read()
    with open(f"{AREA}/status/{job}.0.out", "rb") as file:
        status = file.read()
    tree = os.stat(f"{HOLD}/{job}.0")
    record["retry_at"] = int(retry_at)
    directory = record["directory"]
    for number in range(FIRST, FIRST + int(count)):
        record["job"] = number
        record["directory"] = directory.replace(str(job), str(number))
        with open(f"{JOBS}/{number}.0.json", "w", encoding="utf-8") as file:
            json.dump(record, file)
        with open(f"{JOBS}/{number}.0.request", "wb") as file:
            file.write(request)
        with open(f"{AREA}/status/{number}.0.out", "wb") as file:
            file.write(status)
        os.mkdir(f"{HOLD}/{number}.0", 0o700)
        with open(f"{HOLD}/{number}.0/res", "w", encoding="utf-8") as file:
            file.write("kept\n")
        for path in (f"{HOLD}/{number}.0/res", f"{HOLD}/{number}.0"):
            os.chown(path, tree.st_uid, tree.st_gid)


def remove():
    for directory in (JOBS, HOLD, f"{AREA}/status"):
        for name in os.listdir(directory):
            path = f"{directory}/{name}"
            if int(name.split(".")[0]) < FIRST:
                continue
            if os.path.isdir(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)


if __name__ == "__main__":
    {"make": make, "remove": remove}[sys.argv[1]](*sys.argv[2:])

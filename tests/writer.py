"""Writes to files, so that a reader never finds them at rest, until the file STOP exists.

  writer.py STOP HOW:PATH...     HOW: append, touch (writes over the first byte), rewrite (of 10 MiB, in 40 parts)

It gives up after 100 s. At the end, STOP.gap has the longest time between two writes to a file that was not whole, in milliseconds:
if that is near the 250 ms after which a reader takes a file as settled, the machine was too slow for what the caller wanted to see.
"""
import os
import sys
import time


def append(path):
    with open(path, "ab", 0) as file:
        while True:
            file.write(b"line\n" * 200)
            yield True


def touch(path):
    with open(path, "r+b", 0) as file:
        while True:
            file.seek(0)
            file.write(b"x")
            yield True


def rewrite(path):
    while True:
        with open(path, "wb", 0) as file:
            for part in range(40):
                file.write(b"%08d" % part * 32768)
                yield part < 39


WAYS = {"append": append, "touch": touch, "rewrite": rewrite}
stop, *files = sys.argv[1:]
writers = [WAYS[how](path) for how, path in (file.split(":", 1) for file in files)]
longest = 0
last = time.monotonic()
end = last + 100
while last < end and not os.path.exists(stop):
    is_unfinished = all([next(writer) for writer in writers])
    now = time.monotonic()
    longest = max(longest, now - last)
    time.sleep(0.01 if is_unfinished else 0.1)
    last = now if is_unfinished else time.monotonic()
longest = max(longest, time.monotonic() - last) if os.path.exists(stop) else 100
with open(stop + ".new", "w", encoding="ascii") as file:
    file.write(f"{longest * 1000:.0f}\n")
os.rename(stop + ".new", stop + ".gap")

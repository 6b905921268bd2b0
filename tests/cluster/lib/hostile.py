"""Attacks that a hostile user runs on a node, with that user's rights.

  connections N            opens N connections to nodestaged's socket, as many at once as it can; prints "connected N"
  nest DIR N               makes N nested directories
  plant DIR VICTIM SECONDS replaces what is below DIR, at any depth and again and again, by links to VICTIM and by FIFOs;
                           goes on when DIR is renamed; prints "planted N"
"""
import os
import random
import resource
import socket
import sys
import time

SOCKET = "/run/nodestage/nodestaged.sock"


def connections(count):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    room = min(hard, 1 << 20) - 50
    kept, made, end = [], 0, time.monotonic() + 60
    while made < int(count) and time.monotonic() < end:
        if len(kept) >= room:
            kept = kept[len(kept) // 2:]
        one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        one.settimeout(10)
        try:
            one.connect(SOCKET)
        except BlockingIOError:  # more are coming than are taken in
            time.sleep(0.001)
            continue
        kept.append(one)
        made += 1
        if made % 3 == 0:
            try:
                one.send(b"\x01")
            except OSError:
                pass
    print("connected", made)


def nest(directory, count):
    os.chdir(directory)
    for _ in range(int(count)):
        os.mkdir("d")
        os.chdir("d")
    print("nested", count)


def replace(parent, name, victim, random_, number):
    aside = f".aside-{number}"
    try:
        os.rename(name, aside, src_dir_fd=parent, dst_dir_fd=parent)
    except OSError:
        return 0
    kind = random_.randrange(4)
    try:
        if kind == 0:
            os.mkfifo(name, dir_fd=parent)
        else:
            os.symlink(victim, name, dir_fd=parent)
        if kind == 1:  # and back at once
            os.unlink(name, dir_fd=parent)
            os.rename(aside, name, src_dir_fd=parent, dst_dir_fd=parent)
    except OSError:
        pass
    return 1


def walk(directory):
    """Yields descriptors of DIRECTORY and of everything below it; never follows a link."""
    yield directory
    try:
        names = os.listdir(directory)
    except OSError:
        return
    for name in names:
        try:
            below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=directory)
        except OSError:
            continue
        try:
            yield from walk(below)
        finally:
            os.close(below)


def plant(directory, victim, seconds):
    rng = random.Random(20261121)
    root = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    planted, end = 0, time.monotonic() + float(seconds)
    while time.monotonic() < end:
        for parent in walk(root):
            try:
                names = os.listdir(parent)
            except OSError:
                names = []
            for name in rng.sample(names, min(len(names), 3)):
                planted += replace(parent, name, victim, rng, planted)
            if time.monotonic() >= end:
                break
        time.sleep(0.001)
    print("planted", planted)


if __name__ == "__main__":
    {"connections": connections, "nest": nest, "plant": plant}[sys.argv[1]](*sys.argv[2:])

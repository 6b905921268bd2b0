"""Measures the cost of the barrier on a job's first node: many senders, one real daemon.

python3 barrier_cost.py first JOB UID NODES    on the first node, as root: begins a job of NODES nodes (n1, c0001, ...)
                                               and waits for all of them; prints the time (s) at which all were ready
python3 barrier_cost.py others JOB NODES ADDRESS   on another host, as root: one `ready` note from each other node,
                                               32 connections at a time; prints begin, end (s), bytes sent
"""
import ctypes
import socket
import struct
import sys
import threading
import time

SOCKET = "/run/nodestage/nodestaged.sock"
PORT = 6825
NO_NUMBER = 0xFFFFFFFF
MUNGE_OPT_UID_RESTRICTION = 9


def u32(*numbers):
    return struct.pack(f"<{len(numbers)}I", *numbers)


def u64(*numbers):
    return struct.pack(f"<{len(numbers)}Q", *numbers)


def text(value):
    return u32(len(value)) + value.encode()


def names(count):
    return ["n1"] + [f"c{i:04}" for i in range(1, int(count))]


def ask(packet):
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.settimeout(120)
    connection.connect(SOCKET)
    connection.send(packet)
    return connection


def first(job, uid, count):
    nodes = names(count)
    begin = bytes([1, 1]) + u32(int(job), 0, int(uid), int(uid)) + text("alice") + text("n1") + u32(len(nodes), 0)
    begin += text("n1") + u32(len(nodes)) + b"".join(map(text, nodes)) + bytes([1]) + u32(1)
    begin += text("/tmp") + text("")
    with ask(begin + text('{"version":1}')) as connection:
        assert connection.recv(4096)[1] == 16, "the daemon has not accepted the job"
    wait = bytes([1, 3]) + u32(int(job), 0) + bytes([1, 0, 2]) + u32(1000, NO_NUMBER, NO_NUMBER) + text("x")
    with ask(wait) as connection:
        while True:
            reply = connection.recv(128 * 1024)
            if reply[1] == 18:  # progress
                print("waits", flush=True)
            else:
                break
    assert reply[1] == 19, f"not ready: {reply!r}"
    print(f"ready {time.time():.4f}", flush=True)
    with ask(bytes([1, 2]) + u32(int(job), 0, 0, 5)) as connection:
        connection.recv(4096)


def credentials(job, nodes):
    munge = ctypes.CDLL("libmunge.so.2")
    munge.munge_ctx_create.restype = ctypes.c_void_p
    context = ctypes.c_void_p(munge.munge_ctx_create())
    with open("/etc/passwd") as accounts:
        uid = next(int(line.split(":")[2]) for line in accounts if line.startswith("nodestage:"))
    assert munge.munge_ctx_set(context, MUNGE_OPT_UID_RESTRICTION, ctypes.c_int(uid)) == 0
    for node in nodes:
        note = bytes([1, 1]) + u32(1) + text("n1") + text(node) + u32(int(job), 0) + u64(time.time_ns())
        note += bytes([3, 0, 0]) + u64(0, 0) + text("")
        made = ctypes.c_char_p()
        assert munge.munge_encode(ctypes.byref(made), context, note, len(note)) == 0
        yield made.value


def send_all(address, waiting, refused):
    while waiting:
        try:
            data = waiting.pop()
        except IndexError:
            return
        with socket.create_connection((address, PORT), timeout=30) as connection:
            connection.sendall(b"NSP1" + u32(len(data)) + data)
            if connection.recv(1) != b"A":
                refused.append(data)


def others(job, count, address):
    waiting = list(credentials(job, names(count)[1:]))
    size, refused = sum(map(len, waiting)) + 9 * len(waiting), []
    begin = time.time()
    threads = [threading.Thread(target=send_all, args=(address, waiting, refused)) for _ in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not refused, f"{len(refused)} were refused"
    print(f"{begin:.4f} {time.time():.4f} {size}")


{"first": first, "others": others}[sys.argv[1]](*sys.argv[2:])

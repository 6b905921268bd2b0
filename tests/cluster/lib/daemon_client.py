"""Speaks to nodestaged's socket as any program of a user could, with bytes as in common/wire/protocol.hpp.

python3 - VERB ARG... <daemon_client.py, on a node, as the user to test:
  begin JOB UID   end JOB   wait JOB   exited JOB   status JOB   held JOB   recover JOB
                  sends that request, prints the answers: "refused 2 TEXT", "accepted", "row JOB STATE", ...
  attack          garbage, half messages, too long ones, silence, early closes; prints "survived N"
  crowd N         opens N connections that never send, prints how many are still open after 1 s ("open N"), and
                  stays until its stdin ends
  storm N FILE    N processes that ask for the status of all jobs in a loop, and N that connect in one, until FILE exists
  latency N       as root: asks N times as Slurm's hooks do, 5 s for each; prints "answered N, median, p99, most" in ms
"""
import os
import random
import socket
import struct
import sys
import time

SOCKET = "/run/nodestage/nodestaged.sock"
VERSION = 1
BEGIN, END, WAIT, EXITED, STATUS, HELD, RECOVER = 1, 2, 3, 4, 5, 6, 7
NO_NUMBER = 0xFFFFFFFF


def u32(*numbers):
    return struct.pack(f"<{len(numbers)}I", *numbers)


def text(value):
    data = value.encode()
    return u32(len(data)) + data


def request(verb, job, uid=0):
    return bytes([VERSION]) + {
        "begin": lambda: bytes([BEGIN]) + u32(job, 0, uid, uid) + text("alice") + text("n1") + u32(1, 0)
        + text("n1") + u32(0) + bytes([1]) + u32(1) + text("/tmp") + text("") + text('{"version":1}') + u32(NO_NUMBER),
        "end": lambda: bytes([END]) + u32(job, 0, 0, 5),
        "wait": lambda: bytes([WAIT]) + u32(job, 0) + bytes([1, 0, 1]) + u32(200, NO_NUMBER, NO_NUMBER) + text("x"),
        "exited": lambda: bytes([EXITED]) + u32(job, 0xFFFFFFFB, 0),
        "status": lambda: bytes([STATUS]) + u32(job),
        "held": lambda: bytes([HELD]),
        "recover": lambda: bytes([RECOVER]) + u32(job, NO_NUMBER) + text("/tmp/recovered"),
    }[verb]()


def connect():
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.settimeout(10)
    while True:
        try:
            connection.connect(SOCKET)
            return connection
        except BlockingIOError:  # more are coming than are taken in
            time.sleep(0.01)


class Reader:
    def __init__(self, packet):
        self.rest = packet

    def take(self, count):
        taken, self.rest = self.rest[:count], self.rest[count:]
        return taken

    def u8(self):
        return self.take(1)[0]

    def u32(self):
        return struct.unpack("<I", self.take(4))[0]

    def text(self):
        return self.take(self.u32()).decode(errors="replace")

    def texts(self):
        return [self.text() for _ in range(self.u32())]


def describe(packet):
    reader = Reader(packet[2:])
    kind = packet[1]
    if kind == 16:
        return "accepted"
    if kind == 17:
        return f"refused {reader.u8()} {reader.text()}"
    if kind == 18:
        return f"progress {reader.u8()}"
    if kind == 19:
        return "ready " + " ".join(reader.texts())
    if kind == 20:
        return "failed " + reader.text()
    if kind == 21:
        return f"ended {reader.u8()} {reader.text()}"
    if kind == 22:
        job, _, uid = reader.u32(), reader.u32(), reader.u32()
        _, _, state = reader.text(), reader.text(), reader.text()
        return f"row {job} {uid} {state} |"
    if kind == 23:
        return f"held {reader.u32()}"
    if kind == 24:
        return "recovered"
    if kind == 25:
        reader.take(1)
        state = reader.u32()
        reader.take(4 + 5 * 8)
        texts = [reader.text() for _ in range(5)]
        return f"item {('waiting', 'working', 'done', 'failed', 'skipped')[state]} {texts[-1]}"
    return f"kind {kind}"


def ask(verb, job, uid=0):
    connection = connect()
    connection.send(request(verb, int(job), int(uid)))
    while packet := connection.recv(1 << 18):
        print(describe(packet))
        if packet[1] == 18:  # a waiter is told again and again
            return


def packets():
    rng = random.Random(20261121)
    good = [request(verb, 1) for verb in ("begin", "end", "wait", "exited", "status", "held", "recover")]
    for one in good:
        yield from (one[:length] for length in range(1, len(one)))
        yield one + b"\0"
    for _ in range(200):
        yield rng.randbytes(rng.randrange(1, 300))
    yield bytes([VERSION, 1]) + b"\xff" * 4000
    yield bytes([VERSION, 19]) + u32(NO_NUMBER)
    for size in (128 * 1024 - 1, 128 * 1024, 128 * 1024 + 1, 160 * 1024):
        yield request("begin", 1) + b"x" * size


def attack():
    sent = 0
    for packet in packets():
        connection = connect()
        try:
            connection.send(packet)
        except OSError:  # longer than a socket takes
            continue
        sent += 1
        if sent % 3 == 0:  # does not care for the answer
            connection.close()
            continue
        answer = connection.recv(1 << 18)
        if answer and answer[1] not in (16, 17):
            print("an answer to garbage:", describe(answer))
        if sent % 3 == 1:  # asks again on the same connection
            try:
                connection.send(packet)
            except OSError:
                pass
    for _ in range(50):
        connect().close()
    print("survived", sent)


def is_open(connection):
    connection.setblocking(False)
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


def crowd(count):
    connections = []
    for _ in range(int(count)):
        connections.append(connect())
    time.sleep(1)
    print("open", sum(map(is_open, connections)), flush=True)
    os.read(0, 1)


def loop_until(path, step):
    if os.fork() > 0:
        return
    while not os.path.exists(path):
        try:
            step()
        except OSError:  # the daemon's limits, which are what is tried here
            time.sleep(0.001)
    os._exit(0)


def read_all():
    with connect() as connection:
        connection.send(request("status", 0))
        while connection.recv(1 << 18):
            pass


def storm(count, path):
    for _ in range(int(count)):
        loop_until(path, read_all)
        loop_until(path, lambda: connect().close())
    for _ in range(2 * int(count)):
        os.wait()


def latency(count):
    path = SOCKET.replace(".sock", "-root.sock")
    if not os.path.exists(path):
        path = SOCKET
    times = []
    for _ in range(int(count)):
        begin = time.monotonic()
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.settimeout(5)
            connection.connect(path)
            connection.send(request("exited", 4_000_000_000))
            connection.recv(1 << 18)
        times.append(1000 * (time.monotonic() - begin))
        time.sleep(0.02)
    times.sort()
    print(f"answered {len(times)}, {times[len(times) // 2]:.1f}, {times[len(times) * 99 // 100]:.1f}, {times[-1]:.1f}")


if __name__ == "__main__":
    verbs = {"attack": attack, "crowd": crowd, "storm": storm, "latency": latency}
    verb, *arguments = sys.argv[1:]
    if verb in verbs:
        verbs[verb](*arguments)
    else:
        ask(verb, *arguments)

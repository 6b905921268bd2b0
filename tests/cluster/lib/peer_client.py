"""Speaks to a node's nodestage-peer as any program on a host could: with frames and notes as in
common/wire/peer_note.hpp, credentials from `munge`, as the calling user.

python3 peer_client.py ADDRESS VERB ARG...
  ready TO FROM JOB [SEQUENCE]   a note of that node that it is ready; prints "taken", "refused" or "closed"
  replay TO FROM JOB ADDRESS2    the same credential to ADDRESS, again to ADDRESS, and to ADDRESS2: three answers
  unrestricted TO FROM JOB       as `ready`, with a credential that every user can decode
  bare                           a frame without a credential in it
  sealed                         what looks like a credential by a key of the cluster
  garbage N                      N connections with random bytes; prints "survived"
  half                           half a frame, then silence: prints "closed" when the other side hangs up
  idle N                         N connections that say nothing: prints "open N", stays until stdin ends
"""
import os
import random
import socket
import struct
import subprocess
import sys
import time

PORT = 6825
MAGIC = b"NSP1"
READY = 3


def u32(*numbers):
    return struct.pack(f"<{len(numbers)}I", *numbers)


def u64(*numbers):
    return struct.pack(f"<{len(numbers)}Q", *numbers)


def text(value):
    return u32(len(value)) + value.encode()


def ready_note(to, sender, job, sequence=None):
    head = bytes([1, 1]) + u32(1) + text(to) + text(sender) + u32(int(job), 0)
    return head + u64(int(sequence) if sequence else time.time_ns()) + bytes([READY, 0, 0]) + u64(0, 0) + text("")


def credential(payload, *options):
    made = subprocess.run(["munge", *options], input=payload, capture_output=True, check=True)
    return made.stdout.strip()


def restricted(payload):
    return credential(payload, "--restrict-uid=nodestage")


def connect(address):
    return socket.create_connection((address, PORT), timeout=15)


def answer(connection):
    try:
        return {b"A": "taken", b"R": "refused"}.get(connection.recv(1), "closed")
    except ConnectionResetError:
        return "closed"


def send(address, data):
    with connect(address) as connection:
        connection.sendall(MAGIC + u32(len(data)) + data)
        return answer(connection)


def ready(address, *note):
    print(send(address, restricted(ready_note(*note))))


def replay(address, to, sender, job, address2):
    data = restricted(ready_note(to, sender, job))
    print(*(send(place, data) for place in (address, address, address2)))


def unrestricted(address, *note):
    print(send(address, credential(ready_note(*note))))


def bare(address):
    print(send(address, b"not a credential"))


def sealed(address):
    print(send(address, b"NSK1" + os.urandom(500)))


def garbage(address, count):
    for _ in range(int(count)):
        with connect(address) as connection:
            try:
                connection.sendall(random.choice([b"", MAGIC, MAGIC + u32(0xFFFFFFFF), MAGIC + u32(0)])
                                   + os.urandom(random.randrange(2000)))
                connection.shutdown(socket.SHUT_WR)
                answer(connection)
            except OSError:  # it has hung up already
                pass
    print("survived")


def half(address):
    with connect(address) as connection:
        connection.sendall(MAGIC + u32(500) + b"MUNGE:half")
        print(answer(connection))


def idle(address, count):
    connections = [connect(address) for _ in range(int(count))]
    print("open", len(connections), flush=True)
    sys.stdin.read()


def main():
    address, verb, *arguments = sys.argv[1:]
    verbs = {function.__name__: function
             for function in (ready, replay, unrestricted, bare, sealed, garbage, half, idle)}
    verbs[verb](address, *arguments)


main()

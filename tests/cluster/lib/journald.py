#!/usr/bin/env python3
"""journald.py SOCKET FILE: receives journald's native protocol on SOCKET; writes each entry as one line of JSON to
FILE. A field is NAME=VALUE and a newline, or NAME, a newline, the length as 8 bytes and the value."""
import json
import os
import socket
import struct
import sys


def fields(data):
    entry = {}
    while data:
        name, _, data = data.partition(b"\n")
        if b"=" in name:
            name, _, value = name.partition(b"=")
        else:
            (length,) = struct.unpack_from("<Q", data)
            value, data = data[8 : 8 + length], data[9 + length :]
        name = name.decode("ascii")
        assert name not in entry, name
        entry[name] = value.decode("utf-8")  # a daemon that sends anything else ends this here
    return entry


def main():
    place, path = sys.argv[1:]
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    os.makedirs(os.path.dirname(place), exist_ok=True)
    listener.bind(place)
    with open(path, "w", encoding="ascii") as log:
        while True:
            print(json.dumps(fields(listener.recv(1 << 20))), file=log, flush=True)


main()

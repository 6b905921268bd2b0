#!/usr/bin/env python3
"""hold_lock.py DIRECTORY FILE PID: holds the lock of DIRECTORY until PID goes on.

PID serves FILE's file system (FUSE) and is halted first. Then the directory is read into memory
that is mapped from FILE: the kernel holds the directory's lock while it waits for the page.
Prints "holding" just before.
"""
import ctypes
import mmap
import os
import signal
import sys

SYS_GETDENTS64 = {"x86_64": 217, "aarch64": 61}[os.uname().machine]

directory = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECTORY)
file = os.open(sys.argv[2], os.O_RDONLY)
memory = mmap.mmap(file, 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
os.kill(int(sys.argv[3]), signal.SIGSTOP)
print("holding", flush=True)
ctypes.CDLL(None).syscall(SYS_GETDENTS64, directory, ctypes.c_void_p(address), 4096)

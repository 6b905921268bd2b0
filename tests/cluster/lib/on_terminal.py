#!/usr/bin/env python3
"""on_terminal.py CMD...: runs CMD on its own terminal, as in a shell's foreground. Types a line when CMD prints
"ready", and Ctrl-Z when it prints "again"; when CMD has stopped, continues it and types Ctrl-C. Prints the output
of CMD; the exit code is CMD's, or 128 + n."""
import os
import pty
import select
import signal
import sys
import time

pid, terminal = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])

replies = [(b"ready", b"typed\n"), (b"again", b"\x1a")]
seen, checked, end = b"", 0, time.monotonic() + 20
while time.monotonic() < end:
    if not select.select([terminal], [], [], 0.2)[0]:
        continue
    try:
        data = os.read(terminal, 4096)
    except OSError:
        break
    if not data:
        break
    seen += data
    if replies and replies[0][0] in seen[checked:]:
        checked = len(seen)
        time.sleep(0.2)
        os.write(terminal, replies.pop(0)[1])
        if not replies:
            os.waitpid(pid, os.WUNTRACED)
            seen += b"(stopped)\n"
            os.kill(pid, signal.SIGCONT)
            time.sleep(0.2)
            os.write(terminal, b"\x03")
else:
    os.kill(pid, 9)
sys.stdout.write(seen.decode(errors="replace").replace("\r\n", "\n"))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) % 256)

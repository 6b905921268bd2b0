"""Draws a terminal session as a picture: record_terminal.py SVG TITLE CMD... <STEPS

Runs CMD (a shell with the prompt "$ ") on a terminal of 128 columns, types each line of STEPS at the next prompt,
and draws the final screen. A line "^C AFTER TEXT" types Ctrl-C after a line with TEXT. In a browser with animations,
each line appears after its original delay; long pauses are shortened.
"""
import fcntl
import html
import os
import pty
import re
import select
import struct
import sys
import termios
import time

COLUMNS, WIDTH, HEIGHT, TOP, LEFT = 128, 7.85, 19, 52, 18
LONGEST_PAUSE, LIMIT = 2.0, 180


class Screen:
    """The lines of a terminal whose only control sequences are CR, LF, backspace and erase-line."""

    def __init__(self):
        self.lines, self.times, self.column = [''], [0.0], 0

    def write(self, text, now):
        text = re.sub(r'\x1b\[[0-9;?]*[A-JL-Za-z]|\x1b\][^\a]*\a', '', text)
        for part in re.findall(r'\x1b\[K|\r|\n|\b|[^\r\n\b\x1b]+|\x1b', text):
            if part == '\n':
                self.lines.append('')
                self.times.append(now)
                self.column = 0
            elif part == '\r':
                self.column = 0
            elif part == '\b':
                self.column = max(0, self.column - 1)
            elif part == '\x1b[K':
                self.lines[-1] = self.lines[-1][:self.column]
            else:
                line = self.lines[-1]
                self.lines[-1] = line[:self.column] + part + line[self.column + len(part):]
                self.column += len(part)


def record(command, steps):
    screen, clock, last = Screen(), 0.0, time.monotonic()
    child, terminal = pty.fork()
    if child == 0:
        os.execvp(command[0], command)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack('HHHH', 40, COLUMNS, 0, 0))
    end, seen = time.monotonic() + LIMIT, 0
    while steps and time.monotonic() < end:
        if select.select([terminal], [], [], 0.1)[0]:
            data = os.read(terminal, 65536).decode(errors='replace')
            now = time.monotonic()
            clock += min(now - last, LONGEST_PAUSE)
            last = now
            screen.write(data, clock)
            continue
        awaited = re.fullmatch(r'\^C AFTER (.*)', steps[0])
        if awaited and any(awaited[1] in line for line in screen.lines[seen:]):
            time.sleep(1)
            os.write(terminal, b'\x03')
            steps.pop(0)
        elif not awaited and screen.lines[-1] == '$ ':
            seen = len(screen.lines)
            time.sleep(3)  # a job has started by then
            os.write(terminal, steps.pop(0).encode() + b'\n')
    if steps:
        sys.exit('it did not exit; the screen was:\n' + '\n'.join(screen.lines))
    time.sleep(1)
    screen.write(os.read(terminal, 65536).decode(errors='replace'), clock + 0.5)
    os.close(terminal)
    os.waitpid(child, 0)
    return [(line.rstrip(), when) for line, when in zip(screen.lines, screen.times) if line.strip() not in ('', '$')]


def rows(lines):
    """Splits lines at the width of the terminal into rows, as a terminal does."""
    for line, when in lines:
        for begin in range(0, len(line), COLUMNS):
            yield line[begin:begin + COLUMNS], when, line


def draw(title, lines):
    drawn = list(rows(lines))
    width, height = int(COLUMNS * WIDTH + 2 * LEFT), TOP + HEIGHT * len(drawn) + 8
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
           f'<title>{html.escape(title)}</title>',
           '<style>text{font:13px ui-monospace,"DejaVu Sans Mono",Menlo,Consolas,monospace;fill:#d8dee9;white-space:pre}',
           '.typed{fill:#fff;font-weight:bold}.said{fill:#88c0d0}.title{fill:#8b93a5}',
           '@media (prefers-reduced-motion:no-preference){.line{animation:come 1ms backwards}}',
           '@keyframes come{from{opacity:0}}</style>',
           f'<rect width="{width}" height="{height}" rx="8" fill="#1f2430"/>',
           '<circle cx="22" cy="20" r="6" fill="#bf616a"/><circle cx="42" cy="20" r="6" fill="#ebcb8b"/>'
           '<circle cx="62" cy="20" r="6" fill="#a3be8c"/>',
           f'<text class="title" x="{width / 2}" y="25" text-anchor="middle">{html.escape(title)}</text>']
    for number, (text, when, line) in enumerate(drawn):
        kind = 'typed' if line.startswith('$ ') else 'said' if line.startswith('nodestage: ') else ''
        out.append(f'<text xml:space="preserve" class="line {kind}" x="{LEFT}" y="{TOP + HEIGHT * number + 8}" '
                   f'style="animation-delay:{when:.2f}s">{html.escape(text)}</text>')
    return '\n'.join(out) + '\n</svg>\n'


if __name__ == '__main__':
    target, name, *shell = sys.argv[1:]
    picture = draw(name, record(shell, sys.stdin.read().splitlines()))
    with open(target, 'w', encoding='utf-8') as file:
        file.write(picture)

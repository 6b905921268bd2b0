"""Runs a program with a systemd unit's restrictions, without systemd: under_unit.py UNIT PROGRAM [ARGUMENT]...

SystemCallFilter= with SystemCallErrorNumber=, as this machine's systemd-analyze expands it, with libseccomp; and
CapabilityBoundingSet=, with setpriv. Needs root. `under_unit.py UNIT` alone prints the allowed calls.
"""
import ctypes
import errno
import functools
import os
import re
import subprocess
import sys

ALLOW, ERRNO = 0x7fff0000, 0x00050000
NO_NEW_PRIVILEGES = 3  # SCMP_FLTATR_CTL_NNP

unit, *program = sys.argv[1:]
settings = [line.strip().split('=', 1) for line in open(unit, encoding='utf-8') if '=' in line and line[0] not in '#;[']


def values(name):
    return [value for key, value in settings if key == name]


# All groups with one call: those of a unit are some fifty, since one names others.
def groups():
    text = subprocess.run(['systemd-analyze', 'syscall-filter'], capture_output=True, text=True, check=True).stdout
    # systemd 255 colours the names of groups, even where the output is no terminal.
    found, members = {}, []
    for line in re.sub(r'\x1b\[[0-9;]*m', '', text).splitlines():
        if re.match(r'@\S+$', line):
            members = found.setdefault(line, [])
        elif named := re.match(r' {4}([@a-z]\S*)$', line):
            members.append(named[1])
    return found


GROUPS = groups()


@functools.cache
def calls_of(group):
    return frozenset().union(*(expanded(member) for member in GROUPS[group]))


def expanded(word):
    return calls_of(word) if word.startswith('@') else frozenset([word])


allowed = set()
for value in values('SystemCallFilter'):
    words = value.split()
    if words[0].startswith('~'):
        sys.exit(f'{unit}: a SystemCallFilter= that takes away is not known here')
    allowed |= frozenset().union(*(expanded(word) for word in words))
if not allowed:
    sys.exit(f'{unit} has no SystemCallFilter=')
if not program:
    print('\n'.join(sorted(allowed)))
    sys.exit()

library = ctypes.CDLL('libseccomp.so.2')
library.seccomp_init.restype = ctypes.c_void_p
filtering = ctypes.c_void_p(library.seccomp_init(ERRNO | getattr(errno, values('SystemCallErrorNumber')[0])))
library.seccomp_attr_set(filtering, NO_NEW_PRIVILEGES, 0)
# systemd puts these into every filter, whatever the unit says.
for name in allowed | {'execve'}:
    number = library.seccomp_syscall_resolve_name(name.encode())
    if number >= 0 and library.seccomp_rule_add(filtering, ALLOW, number, 0) != 0:
        sys.exit(f'no rule for {name}')
if library.seccomp_load(filtering) != 0:
    sys.exit('the filter cannot be loaded')
bounding = ['-all'] + ['+' + name.removeprefix('CAP_').lower() for name in values('CapabilityBoundingSet')[0].split()]
os.execvp('setpriv', ['setpriv', '--bounding-set', ','.join(bounding), '--', *program])

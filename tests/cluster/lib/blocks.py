"""The blocks of a document, for docs.bats: blocks.py DOCUMENT DIR.

Each block (fenced in Markdown; .Dl and .Bd -literal below EXAMPLES in a manual page) has a line before it
that says how the test uses it: <!-- KIND: ARGUMENT -->, or .\\" KIND: ARGUMENT. A block without one,
or an indented one, is an error. DIR/N gets the text of block N, DIR/index a line for each: N, line, kind
and argument, with tabs between.
"""
import os
import re
import sys

document, directory = sys.argv[1:]
lines = open(document, encoding='utf-8').read().split('\n')
manual = not document.endswith('.md')
if manual:
    marker = re.compile(r'\.\\" ([a-z ]+): ?(.*)')
    plain = {'\\e': '\\', '\\(dq': '"', '\\&': '', '\\-': '-'}
    begin, end = re.compile(r'\.Bd -literal'), re.compile(r'\.Ed')
else:
    marker = re.compile(r'<!-- ([a-z ]+): ?(.*?) ?-->')
    begin, end = re.compile(r' *```'), re.compile(r' *```$')

blocks, errors, last, inside = [], [], None, None
examples = not manual
for number, line in enumerate(lines, 1):
    if inside is not None:
        if end.match(line):
            blocks.append((*inside[:3], '\n'.join(inside[3]) + '\n'))
            inside = None
        else:
            inside[3].append(re.sub(r'\\(e|&|-|\(dq)', lambda found: plain[found[0]], line) if manual else line)
        continue
    if manual and line.startswith('.Sh'):
        examples = line == '.Sh EXAMPLES'
    one_line = re.match(r'\.Dl (.*)', line) if manual else None
    if examples and (begin.match(line) or one_line):
        if last is None:
            errors.append(f'{document}:{number}: a block without a marker')
            last = ('', '')
        inside = [number, *last, []]
        if one_line:
            blocks.append((*inside[:3], one_line[1] + '\n'))
            inside = None
    elif not manual and re.match(r'    \S', line) and lines[number - 2] == '':
        errors.append(f'{document}:{number}: an indented block; fence it')
    found = marker.fullmatch(line)
    if found:
        last = found.groups()
    elif line.strip():
        last = None

os.makedirs(directory, exist_ok=True)
with open(f'{directory}/index', 'w', encoding='utf-8') as index:
    for count, (number, kind, argument, text) in enumerate(blocks):
        index.write(f'{count}\t{number}\t{kind}\t{argument}\n')
        with open(f'{directory}/{count}', 'w', encoding='utf-8') as file:
            file.write(text)
sys.exit('\n'.join(errors) or (0 if blocks else f'{document}: no blocks'))

"""Checks that quoted messages are the programs' own: messages.py TOP DOCUMENT...

Checks `text in backquotes` in the first column of a document's tables whose heading is about reading or
reporting. `…` stands for what varies; every part between must be in a string of the sources.
"""
import glob
import os
import re
import sys

top, *documents = sys.argv[1:]
sources = ''
for folder in ('plugin', 'common', 'daemon', 'cli'):
    for path in sorted(glob.glob(os.path.join(top, folder, '**', '*.[ch]pp'), recursive=True)):
        with open(path, encoding='utf-8') as file:
            sources += re.sub(r'"\s*\n\s*"', '', file.read())
sources = sources.replace('\\"', '"').replace('\\\\', '\\')
# Of the C library, and of pip.
sources += 'No such file or directory, Permission denied, No matching distribution found for '

wrong, seen = [], 0
for document in documents:
    inside = False
    with open(os.path.join(top, document), encoding='utf-8') as file:
        for line in file:
            if not line.startswith('|'):
                inside = False
            elif re.match(r'\| (you read|the user reports) \|', line):
                inside = True
            if not inside:
                continue
            for message in re.findall(r'`([^`]*)`', re.split(r'(?<!\\) \| ', line[2:])[0]):
                seen += 1
                parts = [part.strip(' :') for part in message.replace('\\|', '|').split('…')]
                wrong += [f'{document}: no program says: {part}' for part in parts if part not in sources]
sys.exit('\n'.join(wrong) or (0 if seen > 10 else 'no table of messages'))

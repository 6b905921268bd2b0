#!/usr/bin/python3
"""Whether the Markdown files follow docs/style.md, as far as a program can judge: lines of at most 100 characters,
and none of the words that the style sheet forbids; and whether each path of a source that they name exists. Looks at the files that git tracks or would add, or at all of the
tree where there is no git. Rows of tables, code, images, lines with a URL, and tables that a program writes may be
long; code may hold any word. Prints file:line: reason for each offense, and exits with 1 when there is one.
"""
import os
import re
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LONGEST = 100
LEFT_OUT = {"build", ".git"}  # directories of a tree without git

# What must not be written, and what to write instead.
WORDS = [
    (r"he|him|his|himself|she|her|hers|herself", "they, or the role"),
    (r"whoever|whosever|whomever", "the user who, anyone who"),
    (r"folders?", "directory"),
    (r"tells|told", "report, show, say"),
    (r"data[ -]sets?", "dataset"),
    (r"colou?rs?(?<!color)(?<!colors)|behaviours?|favou?r(?<!favor)|neighbours?|centres?|licences?", "US spelling"),
    (r"\w*(?:al|gn|an|im|il|ar|on)is(?:e|ed|es|ing|ation)(?<!promise)(?<!promised)(?<!promises)", "US spelling: -ize"),
    (r"misspelt|spelt|learnt|whilst|amongst|towards", "US spelling"),
]
FORBIDDEN = [(re.compile(rf"\b(?:{words})\b", re.IGNORECASE), better) for words, better in WORDS]


def markdown_files():
    listed = subprocess.run(["git", "-C", TOP, "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
                            capture_output=True, text=True, check=False) if os.path.exists(f"{TOP}/.git") else None
    if listed and listed.returncode == 0:
        return sorted(name for name in listed.stdout.splitlines() if os.path.exists(f"{TOP}/{name}"))
    found = []
    for directory, below, names in os.walk(TOP):
        below[:] = [name for name in below if name not in LEFT_OUT]
        found += [os.path.relpath(f"{directory}/{name}", TOP) for name in names if name.endswith(".md")]
    return sorted(found)


def without_blocks(text):
    """The lines, where those of fenced or indented code and of written tables are empty."""
    lines, fence, written, after_blank = [], False, False, True
    for line in text.split("\n"):
        is_fence = line.lstrip().startswith("```")
        if re.match(r"<!-- end of the .*table -->", line):
            written = False
        indented = after_blank and line.startswith("    ")
        lines.append("" if fence or is_fence or written or indented else line)
        if re.match(r"<!-- .*table: written by .*-->", line):
            written = True
        fence = fence != is_fence
        after_blank = not line.strip() or indented
    return lines


def may_be_long(line):
    return line.startswith(("|", "![")) or re.search(r"\bhttps?://", line) is not None


def blank(found):
    return re.sub(r"[^\n]", " ", found[0])


def offenses(text):
    lines = without_blocks(text)
    for number, line in enumerate(lines, 1):
        if len(line) > LONGEST and not may_be_long(line):
            yield number, f"{len(line)} characters, and at most {LONGEST} are wanted"
    # Code in a line, and comments, which may go on in the next line.
    words = re.sub(r"(`+)[^`](?:(?!\n\n)[\s\S])*?\1|<!--[\s\S]*?-->", blank, "\n".join(lines))
    for number, line in enumerate(words.split("\n"), 1):
        for pattern, better in FORBIDDEN:
            for found in pattern.finditer(line):
                yield number, f"'{found[0]}': write {better}"


# `cli/main.cpp`: a path from the top.
PATH = re.compile(r"`((?:cli|common|conf|daemon|packaging|plugin|scripts|tests)/[\w./-]+)`")


def gone(text):
    for number, line in enumerate(without_blocks(text), 1):
        for path in PATH.findall(line):
            if not os.path.exists(f"{TOP}/{path}"):
                yield number, f"{path} is not there"


def main():
    wrong = []
    files = markdown_files()
    for name in files:
        with open(f"{TOP}/{name}", encoding="utf-8") as file:
            text = file.read()
        wrong += [f"{name}:{number}: {reason}" for number, reason in sorted([*offenses(text), *gone(text)])]
    sys.exit("\n".join(wrong) or (0 if files else "no Markdown files"))


main()

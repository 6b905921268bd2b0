#!/usr/bin/python3
"""Whether each test that docs/reliability.md names exists. A name is a suite and words of the names of its tests, in
backquotes: `suite: words; words of another one`, where "…" stands for any text. Suites are the .bats files of
tests/cluster, tests/machine and tests/packaging, and "unit" and "security": there, the words are part of the name of a
TEST_CASE, or the name of a source file. In the last column of a table, a suite can stand alone. Prints file:line: reason for
each name that is wrong, and exits with 1 when there is one.
"""
import glob
import os
import re
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DOCUMENT = "docs/reliability.md"


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def suites():
    """The names of tests by suite."""
    found = {"unit": [], "security": []}
    for path in glob.glob(f"{TOP}/tests/*/*.bats"):
        found[os.path.basename(path)[:-len(".bats")]] = re.findall(r'^@test "(.*)" \{', read(path), re.MULTILINE)
    for suite, tests in (("unit", found["unit"]), ("security", found["security"])):
        for path in glob.glob(f"{TOP}/tests/{suite}/**/*.*", recursive=True):
            tests.append(os.path.splitext(os.path.basename(path))[0])
            # The compiler joins adjacent literals.
            text = re.sub(r'"\s*\n\s*"', "", read(path)) if path.endswith(".cpp") else ""
            tests += re.findall(r'TEST_CASE(?:_FIXTURE)?\((?:\w+,\s*)?\s*"((?:[^"\\]|\\.)*)"', text)
    return found


def is_there(words, tests):
    pattern = re.compile(".*".join(re.escape(part.strip()) for part in words.split("…")))
    return any(pattern.search(test) for test in tests)


def problems(line, known):
    for name in re.findall(r"`([^`]+)`", line):
        suite, colon, words = name.partition(": ")
        if colon and suite in known:
            for part in words.split("; "):
                if not is_there(part, known[suite]):
                    yield f"no test of '{suite}' has these words: {part}"
        elif colon and re.fullmatch(r"[a-z0-9_-]+", suite) and not line.startswith("|"):
            continue  # of a configuration or a log
        elif colon and re.fullmatch(r"[a-z0-9_-]+", suite):
            yield f"there is no suite '{suite}'"
    cells = line.strip().strip("|").split(" | ")
    last = cells[-1].strip() if line.startswith("|") and len(cells) > 2 else ""
    for suite in re.findall(r"(?:^|, |; )`([a-z0-9_./-]+)`", last):
        if suite not in known and not os.path.exists(f"{TOP}/{suite}") and re.fullmatch(r"`[^`]*`(?:[,;] `[^`]*`)*", last):
            yield f"there is no suite '{suite}'"


def main():
    known = suites()
    count = 0
    for number, line in enumerate(read(f"{TOP}/{DOCUMENT}").split("\n"), 1):
        for problem in problems(line, known):
            print(f"{DOCUMENT}:{number}: {problem}")
            count += 1
    sys.exit(1 if count else 0)


if __name__ == "__main__":
    main()

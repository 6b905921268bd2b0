"""Makes the table from a run's result."""
import datetime
import os
import platform
import re
import statistics
import subprocess

PAGE = f"{os.path.dirname(os.path.abspath(__file__))}/../../docs/performance.md"
BEGIN, END = "<!-- table: written by tests/bench/run --docs -->", "<!-- end of the table -->"


def described(at):
    return f"{at['processor']}, {at['cores']} cores, {at['memory_gib']} GiB, Linux {at['kernel']}, {at['file_system']}"


def machine(top):
    model = "unknown processor"
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        found = re.search(r"model name\s*: (.*)", file.read())
        model = found[1] if found else model
    file_system = subprocess.run(["findmnt", "-no", "FSTYPE", "-T", top], capture_output=True, text=True, check=True)
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {"processor": model, "cores": os.cpu_count(), "memory_gib": round(pages / 1024 ** 3),
            "kernel": platform.release(), "file_system": file_system.stdout.strip()}


def seconds(row, name):
    return [sample[0] for sample in row["samples"][name]]


def paired(row, above, below):
    """Ratios of the runs of the same round: median, least, greatest."""
    ratios = [a / b for a, b in zip(seconds(row, above), seconds(row, below))]
    return statistics.median(ratios), min(ratios), max(ratios)


def line(row, peer):
    ratio, low, high = paired(row, peer, "us")
    at_most = paired(row, peer, "floor")[0]
    floor = paired(row, "us", "floor")[0]
    resident = max(sample[1] for sample in row["samples"]["us"])
    return [row["name"], peer.replace("|", "\\|"), f"{ratio:.2f}× ({low:.2f}–{high:.2f})", f"{at_most:.2f}×",
            f"{statistics.median(seconds(row, 'us')):.2f} s", f"{floor:.2f}×", f"{resident:.0f} MiB"]


HEADER = ["workload", "against", "faster (range)", "floor", "time", "over floor", "memory"]


def table(result):
    lines = [HEADER, ["---"] * len(HEADER)]
    for row in result["rows"]:
        lines.extend(line(row, peer) for peer in row["peers"])
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def summary(result):
    """All comparisons, except those with dd, which extracts nothing."""
    ratios = {f"{row['name']} against `{peer}`": paired(row, peer, "us")[0]
              for row in result["rows"] for peer in row["peers"] if not peer.startswith("dd ")}
    if not ratios:
        return "No comparison."
    slower = [f"{name} ({ratio:.2f}×)" for name, ratio in ratios.items() if ratio < 1]
    return (f"nodestage is faster in {len(ratios) - len(slower)} of {len(ratios)} comparisons with another program, by "
            f"{statistics.median(ratios.values()):.2f}× in the median. It is slower in: {'; '.join(slower) or 'none'}.")


def text(result):
    parts = [f"{result['date']}, `{result['command']}`, {result['pairs']} rounds, scale {result['scale']:g}: "
             f"{described(result['machine'])}."]
    if result["note"]:
        parts.append(f"**{result['note']}**")
    parts += [table(result), summary(result)]
    if result["left_out"]:
        parts.append("Left out: " + "; ".join(result["left_out"]) + ".")
    return "\n\n".join(parts)


def page_part(head, note, table_lines):
    """What stands between two marks of the page: when and where it was measured, and the table."""
    head = f"{datetime.date.today().isoformat()}, {head}"
    return "\n\n".join([head] + ([f"**{note}**"] if note else []) + [table_lines])


def write_docs(words, begin=BEGIN, end=END):
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    first, last = page.index(begin) + len(begin), page.index(end)
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(f"{page[:first]}\n{words}\n{page[last:]}")

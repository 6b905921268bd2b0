#!/usr/bin/python3
"""Tries the recommended alerts on samples of the metrics of daemons, by Prometheus's promtool.

  tests/simulation/alerts.py RULES BEFORE AFTER     prints the alerts that fire if a daemon's file is BEFORE for two hours,
                                                    and AFTER for two days. A missing AFTER: the daemon writes no more.

Exits with 3 if there is no promtool (Debian's package `prometheus` has it).
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

MINUTE = 60
FILE = "/var/lib/prometheus/node-exporter/nodestage.prom"


def promtool():
    return shutil.which("promtool")


def parse(text):
    """series -> value."""
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line and not line.startswith("#")}


def names_in(rules):
    with open(rules, encoding="utf-8") as file:
        return re.findall(r"^\s*- alert: (\w+)$", file.read(), re.M)


def families_in(rules):
    with open(rules, encoding="utf-8") as file:
        return set(re.findall(r"nodestage_\w+", file.read()))


def with_instance(series, instance):
    """The series with the label that Prometheus adds."""
    name, _, labels = series.partition("{")
    return f'{name}{{instance="{instance}"' + (f",{labels}" if labels else "}")


def inputs(node, samples, step):
    """The samples of a node, each {series: value} with the age of its file in seconds as "age", as promtool's input."""
    found = []
    # What is always 0 is left out: an alert on it would not fire.
    for series in sorted({series for sample in samples for series, value in sample.items() if series != "age" and value}):
        values = [f"{sample[series]:.10g}" if series in sample else "_" for sample in samples]
        found.append({"series": with_instance(series, node), "values": " ".join(values)})
    # promtool's time begins at 0; a file that is older than the first sample is of that time.
    written = [max(0, number * step - sample["age"]) for number, sample in enumerate(samples)]
    found.append({"series": f'node_textfile_mtime_seconds{{instance="{node}",file="{FILE}"}}',
                  "values": " ".join(f"{time:.10g}" for time in written)})
    return found


def fired(rules, node, samples, step):
    """The names of the alerts that fire at any of the steps, for the samples of a node, which are `step` seconds apart."""
    names, count = names_in(rules), len(samples)
    tests = {"rule_files": [os.path.abspath(rules)], "evaluation_interval": f"{step}s",
             "tests": [{"interval": f"{step}s", "input_series": inputs(node, samples, step),
                        "alert_rule_test": [{"eval_time": f"{number * step}s", "alertname": alert, "exp_alerts": []}
                                            for alert in names for number in range(count)]}]}
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump(tests, file)  # which is YAML
        file.flush()
        ran = subprocess.run([promtool(), "test", "rules", file.name], capture_output=True, text=True, check=False)
    if ran.returncode == 0:
        return []
    # Each that is not expected is shown with its name.
    found = set(re.findall(r"alertname: (\w+)", ran.stdout + ran.stderr))
    if not found:
        raise SystemExit(f"promtool: {ran.stdout}{ran.stderr}")
    return [name for name in names if name in found]


def main(rules, before, after):
    if not promtool():
        return "promtool is not installed", 3
    step = 5 * MINUTE
    with open(before, encoding="utf-8") as file:
        first = parse(file.read())
    samples = [{**first, "age": 0}] * 24
    if os.path.exists(after):
        with open(after, encoding="utf-8") as file:
            samples += [{**parse(file.read()), "age": 0}] * 576
    else:
        samples += [{**first, "age": number * step} for number in range(576)]
    return "\n".join(fired(rules, "n1", samples, step)), 0


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    TEXT, CODE = main(*sys.argv[1:])
    if TEXT:
        print(TEXT)
    sys.exit(CODE)

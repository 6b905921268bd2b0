"""The report of a simulation: what is wrong, and the figures."""
import json
import statistics

FIELDS = ("descriptors", "threads")


def lasting(samples, kind):
    """node -> what its daemon (or peer) held in each sample, for those that are one process in all samples."""
    found = {}
    for node in samples[0]["nodes"]:
        held = [sample["nodes"][node].get(kind) for sample in samples]
        if all(held) and len({one["pid"] for one in held}) == 1:
            found[node] = held
    return found


def growth(samples, kind):
    """Of all that lasted: (number, mean of the first quarter, mean of the last quarter, the most that one grew), in KiB."""
    quarter = max(1, len(samples) // 4)
    pairs = [(statistics.mean(one["memory"] for one in held[:quarter]), statistics.mean(one["memory"] for one in held[-quarter:]))
             for held in lasting(samples, kind).values()]
    if not pairs:
        return 0, 0, 0, 0
    return len(pairs), statistics.mean(first for first, _ in pairs), statistics.mean(last for _, last in pairs), max(last - first for first, last in pairs)


def peak(samples, kind):
    """The most memory that any of them had, in KiB."""
    return max((held[kind]["peak"] for sample in samples for held in sample["nodes"].values() if kind in held), default=0)


def held_more(before, after):
    """Descriptors and threads that a daemon without jobs has more than before the first job."""
    found = []
    for kind in ("daemon", "peer"):
        for node, (first, last) in lasting([before, after], kind).items():
            found += [f"{node}: the {kind} has {last[field]} {field}, and had {first[field]} before the first job"
                      for field in FIELDS if last[field] > first[field]]
    return found


def problems(run):
    """Sentences; none if all is well."""
    found = [f"job {wrong['number']} ({wrong['kind']}, Slurm's {wrong['id']}): {fault}" for wrong in run.wrong for fault in wrong["faults"]]
    found += [f"{node}: left there: {name}" for node, names in run.left.items() for name in names]
    found += [f"a temporary name is left: {name}" for name in run.temporary]
    found += [f"drained: {line}" for line in run.drained]
    found += run.faults_failed
    found += [f"an alert for administrators fires, and nothing is for them to do: {alert}" for alert in run.alerts or []]
    found += held_more(run.before, run.after)
    for kind in ("daemon", "peer"):
        count, _, _, most = growth(run.samples, kind)
        if count == 0:
            found.append(f"no {kind} ran all the time, so nothing is known about its memory")
        elif most > run.options.growth:
            found.append(f"a {kind} has grown by {most:.0f} KiB, and {run.options.growth} are allowed (--growth)")
        found += [f"{node}: no {kind} runs at the end" for node, held in run.after["nodes"].items() if kind not in held]
    return found


def write(run, file):
    """The report as text."""
    def say(text=""):
        print(text, file=file)

    found = problems(run)
    seconds = run.samples[-1]["time"] - run.samples[0]["time"]
    say(f"{len(run.cluster.nodes)} nodes, seed {run.options.seed}, {seconds / 60:.1f} minutes, {sum(run.ended.values())} jobs that ended")
    say("\nJobs by kind and by how they ended:")
    for (kind, states), count in sorted(run.ended.items()):
        say(f"  {kind:14} {states:24} {count}")
    say("\nFaults: " + (", ".join(f"{name} {count}" for name, count in sorted(run.faults.items())) or "none"))
    for kind in ("daemon", "peer"):
        count, first, last, most = growth(run.samples, kind)
        say(f"Memory of the {count} of kind {kind} that ran all the time: {first:.0f} KiB in the first quarter, {last:.0f} in the last; the most that one grew: {most:.0f}")
        say(f"The most memory that any {kind} had: {peak(run.samples, kind)} KiB")
    for kind in ("daemon", "peer"):
        pairs = lasting([run.before, run.after], kind).values()
        for field in FIELDS:
            say(f"{field} of each {kind}, without jobs: at most {max((first[field] for first, _ in pairs), default=0)} before, "
                f"{max((last[field] for _, last in pairs), default=0)} after")
    say(f"Journals: {run.after['journal']} bytes at the end, {max(sample['journal'] for sample in run.samples)} at most; "
        f"logs of the daemons: {run.after['log']} bytes, {run.after['log'] / max(1, sum(run.ended.values())):.0f} for each job")
    say("Alerts: " + ("not tried, promtool is not installed" if run.alerts is None else ", ".join(run.alerts) or "none fires"))
    for title, entries in (("Counters of the daemons, since the last start of each", run.counters),
                           ("Warnings and errors of the daemons", run.messages), ("Errors of slurmctld", run.slurm_messages)):
        say(f"\n{title}:")
        for name, count in list(entries.items())[:40]:
            say(f"  {count:>12.0f}  {name[:200]}")
    say(f"\n{'Problems' if found else 'No problem'}:" if found else "\nNo problem.")
    for text in found:
        say(f"  {text}")
    for wrong in run.wrong[:20]:
        say(f"  to repeat: {wrong['repeat']}")
    return not found


def save(run, path):
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"options": vars(run.options), "wrong": run.wrong, "samples": run.samples, "problems": problems(run)}, file)

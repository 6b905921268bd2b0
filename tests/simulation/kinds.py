"""The kinds of jobs of a simulation. Each job, and how it must end, follows from the seed and its number alone."""
import dataclasses
import random

PRELUDE = r"""#!/bin/bash
wrong() { echo "WRONG on $SLURMD_NODENAME: $*"; exit 99; }
sum_of() { (cd "$1/" && find . -type f -print0 | LC_ALL=C sort -z | xargs -0 -r sha256sum | sha256sum | cut -d' ' -f1); }
is() { [ "$(sum_of "$1")" = "$2" ] || wrong "what is in $1 is not what was staged"; }
fill() { mkdir -p "$(dirname "$1")" && yes "$2" | head -c "$3" >"$1"; }
export -f wrong sum_of is fill
"""
IN = """cd "$SLURM_TMPDIR" || wrong 'there is no $SLURM_TMPDIR'
"""
END = "echo SIMULATED\n"


@dataclasses.dataclass
class Job:
    number: int
    kind: str
    user: str
    arguments: list
    script: str
    states: tuple = ("COMPLETED",)  # in one of which it ends
    code: int = 0
    says: tuple = ("SIMULATED",)  # parts of its output
    says_not: tuple = ("WRONG",)
    # Path -> (text, size) that a file is filled with, or None: it must not exist.
    results: dict = dataclasses.field(default_factory=dict)
    whole_or_absent: bool = False  # for results of a job that is cancelled at any moment: absent only if it did not say WRITTEN
    elements: int = 1  # jobs that Slurm counts: tasks of an array, components
    cancel_after: float | None = None  # seconds from its submission
    held: bool = False  # it is requeued and held, and must be released
    opens: str | None = None  # a directory that lets the held results in once it is opened


class Maker:
    """Makes a job from its number."""

    def __init__(self, seed, number, facts, nodes):
        self.pick = random.Random(f"{seed}.{number}")
        self.number, self.nodes = number, nodes
        self.user = self.pick.choice(("alice", "bob"))
        self.facts = facts[self.user]
        self.home = f"/home/{self.user}"
        self.out = f"{self.home}/out/{number}"

    def job(self, kind, arguments, script, **rest):
        output = f"--output={self.home}/jobs/{self.number}{'-%a' if kind == 'array' else ''}.txt"
        return Job(self.number, kind, self.user, [f"--job-name=s{self.number}", output, "--open-mode=append", *arguments],
                   PRELUDE + (IN if any(word.startswith("--stage") for word in arguments) else "") + script, **rest)

    def archive(self):
        return f"{self.home}/in/good.{self.pick.choice(self.facts['formats'])}"

    def result(self):
        """Text and size of a result file."""
        return f"result {self.number}", self.pick.randrange(1, 60000)


def archive(make):
    key, facts = make.pick.choice((("", "tree"), (",include=a/*", "a"), (",exclude=a", "not a"))), make.facts
    text, size = make.result()
    to = make.pick.choice((f"results:{make.out}", f"results/r:{make.out}/r", f"results:{make.out}/pack.tar.zst"))
    packed = to.endswith(".zst")
    return make.job("archive", [f"--stage-dataset={make.archive()}:d{key[0]}", f"--stage-out={to}"],
                    f"is d {facts[key[1]]}\n[ \"$NODESTAGE_DATASET\" = \"$SLURM_TMPDIR/d\" ] || wrong variable\n"
                    f"fill results/r '{text}' {size}\n" + END,
                    results={f"{make.out}/pack.tar.zst" if packed else f"{make.out}/r": (text, size)})


def directory(make):
    return make.job("directory", [f"--stage-dataset={make.home}/in/tree:d", f"--stage-dataset={make.archive()}:e"],
                    f"is d {make.facts['tree']}; is e {make.facts['tree']}\n" + END)


def bad(make):
    suffix = make.pick.choice(("tar.gz", "tar.zst", "tar.xz"))
    name, says = make.pick.choice(((f"cut.{suffix}", "truncated"), ("text.tar.gz", "is named like an archive, but is not one"),
                                   ("missing.tar", "No such file")))
    count = make.pick.choice((1, 1, 1, min(4, make.nodes)))
    text, size = make.result()
    return make.job("bad", [f"-N{count}", f"--stage-dataset={make.home}/in/{name}:d", f"--stage-out=r:{make.out}/r"],
                    f"fill r '{text}' {size}\n" + END, states=("FAILED",), code=1, says=(name, says), says_not=("SIMULATED", "WRONG"),
                    results={f"{make.out}/r": None})


def optional(make):
    return make.job("optional", [f"--stage-dataset={make.home}/in/{make.pick.choice(('missing.tar', 'cut.tar.gz'))}:d,optional,name=X",
                                 f"--stage-dataset={make.archive()}:e"],
                    f"[ -z \"${{NODESTAGE_DATASET_X-}}\" ] && [ ! -e d ] || wrong 'd is there'\nis e {make.facts['tree']}\n" + END,
                    says=("not staged (optional, the job goes on)", "SIMULATED"))


def fails(make):
    code, (text, size) = make.pick.randrange(1, 90), make.result()
    whens = [f"--stage-out=r:{make.out}/{when},when={when}" for when in ("success", "failure", "always")]
    return make.job("fails", [f"--stage-dataset={make.archive()}:d", *whens],
                    f"is d {make.facts['tree']}\nfill r '{text}' {size}\n{END}exit {code}\n", states=("FAILED",), code=code,
                    results={f"{make.out}/success": None, f"{make.out}/failure": (text, size), f"{make.out}/always": (text, size)})


def succeeds(make):
    text, size = make.result()
    return make.job("succeeds", [f"--stage-out=r:{make.out}/{when},when={when}" for when in ("success", "failure")],
                    f"fill r '{text}' {size}\n{END}", results={f"{make.out}/success": (text, size), f"{make.out}/failure": None})


def cancelled(make):
    text, size = make.result()
    return make.job("cancelled", [f"-N{make.pick.choice((1, 1, 2))}", f"--stage-dataset={make.archive()}:d",
                                  f"--stage-dataset={make.home}/in/large.tar:l", f"--stage-out=r:{make.out}/r-%n"],
                    f"is d {make.facts['tree']}\nfill r.new '{text}' {size}; mv r.new r; echo WRITTEN\nsleep 600\n", states=("CANCELLED",), says=(),
                    results={f"{make.out}/r-0": (text, size)}, whole_or_absent=True, cancel_after=make.pick.uniform(0, 20))


def limit(make):
    text, size = make.result()
    return make.job("limit", ["--time=1", f"--stage-dataset={make.archive()}:d", f"--stage-out=r:{make.out}/r",
                              f"--stage-out=r:{make.out}/f,when=failure", f"--stage-out=r:{make.out}/s,when=success"],
                    f"is d {make.facts['tree']}\nfill r '{text}' {size}\n{END}sleep 600\n", states=("TIMEOUT",), code=0,
                    results={f"{make.out}/r": (text, size), f"{make.out}/f": (text, size), f"{make.out}/s": None})


def requeued(make):
    """Held meanwhile: slurmd runs no prolog for a job whose old credential it has not forgotten yet."""
    text, size = make.result()
    return make.job("requeued", ["--requeue", f"--stage-dataset={make.archive()}:d", f"--stage-out=r:{make.out}/run%r"],
                    f"is d {make.facts['tree']}\nfill r '{text}' {size}\n"
                    f"[ \"${{SLURM_RESTART_COUNT:-0}}\" -ge 1 ] || {{ scontrol requeuehold $SLURM_JOB_ID; sleep 600; }}\n{END}",
                    results={f"{make.out}/run0": (text, size), f"{make.out}/run1": (text, size)}, held=True)


def array(make):
    count, (text, size) = make.pick.randrange(2, 7), make.result()
    return make.job("array", [f"--array=1-{count}", f"--stage-dataset={make.archive()}:d", f"--stage-out=r:{make.out}/%a"],
                    f"is d {make.facts['tree']}\nfill r '{text}' {size}\n{END}", elements=count,
                    results={f"{make.out}/{index}": (text, size) for index in range(1, count + 1)})


def long_array(make, count, at_a_time):
    """An array as those who stage would run it at scale: each task has its data and one result."""
    text, size = make.result()
    return make.job("array", [f"--array=1-{count}%{at_a_time}", f"--stage-dataset={make.home}/in/good.tar:d", f"--stage-out=r:{make.out}/%a"],
                    f"is d {make.facts['tree']}\nfill r '{text}' {size}\n{END}", elements=count,
                    results={f"{make.out}/{index}": (text, size) for index in range(1, count + 1)})


def heterogeneous(make):
    text, size = make.result()
    first = ["-n1", f"--stage-dataset={make.archive()}:d"]
    second = ["-n1", f"--stage-dataset={make.archive()}:e,include=a/*", f"--stage-out=r:{make.out}/r"]
    return make.job("heterogeneous", [*first, ":", *second],
                    f"is d {make.facts['tree']}\nsrun --het-group=1 bash -c 'cd $SLURM_TMPDIR && is e {make.facts['a']} && "
                    f"fill r \"{text}\" {size}' || wrong 'the second component'\n{END}",
                    elements=2, results={f"{make.out}/r": (text, size)})


def many(make):
    count = min(make.nodes, make.pick.choice((2, 3, 4, 4, 6, 8, 8, 16, 32)))
    text, size = make.result()
    return make.job("many", [f"-N{count}", f"--stage-dataset={make.home}/in/large.tar:l", f"--stage-out=r:{make.out}/%n"],
                    f"srun --ntasks-per-node=1 bash -c 'cd $SLURM_TMPDIR && is l {make.facts['large']} && "
                    f"fill r \"{text}\" {size}' || wrong 'a node'\n{END}",
                    results={f"{make.out}/{index}": (text, size) for index in range(count)})


def venv(make):
    return make.job("venv", [f"--stage-venv={make.home}/in/env.tar.gz" + make.pick.choice(("", ",shared"))],
                    "[ \"$(python -c 'import marker, sys; print(marker.WORD, sys.prefix == sys.argv[1])' \"$NODESTAGE_VENV\")\" = 'found True' ] ||\n"
                    "    wrong 'the environment'\n" + END)


def shared(make):
    source = make.pick.choice(("good.tar", "good.zip", "large.tar"))
    return make.job("shared", [f"--stage-dataset={make.home}/in/{source}:d,shared"],
                    f"is \"$NODESTAGE_DATASET\" {make.facts['large' if source == 'large.tar' else 'tree']}\n"
                    f"! touch d/new 2>/dev/null || wrong 'it can be written'\n{END}")


def push(make):
    text, size = make.result()
    return make.job("push", [f"--stage-dataset={make.archive()}:d", f"--stage-out=r:{make.out}"],
                    f"is d {make.facts['tree']}\nfill r/one '{text}' {size}\nnodestage push || wrong \"push: $?\"\n"
                    f"cmp r/one {make.out}/one || wrong 'it was not pushed'\n"
                    f"fill r/two '{text}' {size}\n{END}", results={f"{make.out}/one": (text, size), f"{make.out}/two": (text, size)})


def every(make):
    text, size = make.result()
    return make.job("every", ["--time=10", f"--stage-out=r:{make.out},every=1"],
                    f"fill one '{text}' {size}; mkdir r; mv one r/one\nuntil [ -e {make.out}/one ]; do sleep 1; done\n"
                    f"fill r/two '{text}' {size}\n{END}",
                    results={f"{make.out}/one": (text, size), f"{make.out}/two": (text, size)})


def newest(make):
    return make.job("newest", [f"--stage-dataset={make.home}/in/versions:v,newest=1", f"-N{make.pick.choice((1, 2))}"],
                    f"srun --ntasks-per-node=1 bash -c 'is $SLURM_TMPDIR/v {make.facts['v3']}' || wrong 'a node'\n" + END)


def asynchronous(make):
    return make.job("async", [f"--stage-dataset={make.home}/in/large.tar:l,async", f"--stage-dataset={make.home}/in/cut.tar.gz:c,async"],
                    f"nodestage wait l || wrong 'no l'\nis l {make.facts['large']}\n! nodestage wait c || wrong 'a cut archive is there'\n" + END)


def held(make):
    text, size = make.result()
    closed = f"{make.home}/closed/{make.number}"
    return make.job("held", [f"--stage-dataset={make.archive()}:d", f"--stage-out=r:{closed}/r"],
                    f"mkdir -m 0500 -p {closed}\nis d {make.facts['tree']}\nfill r '{text}' {size}\n{END}", results={f"{closed}/r": (text, size)}, opens=closed)


def bare(make):
    """A job without an option, among those with."""
    return make.job("bare", [], "[ -z \"${SLURM_TMPDIR-}\" ] || wrong 'it has a directory'\n" + END)


# How often each kind is drawn, of the sum.
WEIGHTS = {archive: 20, directory: 4, bad: 8, optional: 3, fails: 5, succeeds: 3, cancelled: 7, limit: 1, requeued: 3, array: 3,
           heterogeneous: 2, many: 8, venv: 4, shared: 8, push: 4, every: 3, newest: 3, asynchronous: 3, held: 2, bare: 3}
SLOW = {limit}  # a minute and more, by Slurm's units


def job_number(seed, number, facts, nodes, quick=False):
    """The first ones are one of each kind; the others are drawn."""
    kinds = [kind for kind in WEIGHTS if not (quick and kind in SLOW)]
    make = Maker(seed, number, facts, nodes)
    if number < len(kinds):
        return kinds[number](make)
    return make.pick.choices(kinds, [WEIGHTS[kind] for kind in kinds])[0](make)

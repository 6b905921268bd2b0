"""One row: nodestage, its peers and the floor, in turns, each into its own empty directory."""
import glob
import mmap
import os
import shutil
import statistics
import subprocess
import tempfile
import time

import profile_cpu
import rows
import trees

# What a far source's server waits before it answers: as a file system of another building does.
READ_US, CALL_US = 2000, 250


class Failed(Exception):
    """A timed program failed, or its output is wrong."""


SETTLE_SECONDS = 61
SPARE_MEMORY = 512 << 20


def above(top):
    """The directory above everything that is extracted."""
    return f"{top}/into"


class Written:
    """The output of earlier rows. It is removed only for lack of space: ext4 skips, one by one, inodes that were freed
    less than a minute ago, and after many removals a run takes many times as long."""

    def __init__(self, options):
        self.top = above(options.dir)
        self.is_quick = options.quick
        self.spare = 2 << 30

    def make_room(self, wanted_bytes, wanted_files):
        os.makedirs(self.top, mode=0o755, exist_ok=True)
        place = os.statvfs(self.top)
        has_room = wanted_bytes + self.spare < place.f_bavail * place.f_frsize and (
            place.f_files == 0 or wanted_files < place.f_favail)
        if has_room or not os.listdir(self.top):
            return
        shutil.rmtree(self.top)
        os.mkdir(self.top, mode=0o755)
        if not self.is_quick:
            os.sync()
            time.sleep(SETTLE_SECONDS)


def give(path, user):
    """Changes the owner of path to `user`; {}: it keeps its owner."""
    if user:
        os.chown(path, user["user"], user["group"])


class Trial:
    def __init__(self, row, workloads, tools, options):
        self.row = row
        self.tools = tools
        self.options = options
        self.workloads = workloads
        self.tree = workloads.tree(row.workload)
        self.source = self.tree if row.form == "directory" else workloads.archive(row.workload, row.form)
        self.read_from = self.source
        self.into = None
        self.filled = workloads.bytes_in_memory(row.workload)
        self.touched = self.filled + SPARE_MEMORY
        if row.source != "warm" and os.path.isfile(self.source):
            self.touched += os.path.getsize(self.source)
        self.mount = None
        self.commands = {"us": f'{tools.launcher} {tools.worker} "$s" $PWD {options.threads} {row.keys}'}
        self.commands.update((peer, rows.PEERS[peer]) for peer in row.peers)
        self.commands["floor"] = f"{tools.floor} {workloads.manifest(row.workload)} $PWD {options.threads}"

    def run(self):
        """Samples of each command: {name: [(seconds, resident MiB, CPU seconds), ...]}."""
        samples = {name: [] for name in self.commands}
        self._warm()
        names = list(self.commands)
        for pair in range(self.options.pairs):
            # Another one begins each time, so that none always finds what a certain other left.
            at = pair % len(names)
            for name in names[at:] + names[:at]:
                samples[name].append(self._sample(name, pair == 0))
        return samples

    def profile(self, rounds):
        """The activities that take each command's CPU time: {name: {what: seconds}}, medians."""
        recorder = profile_cpu.Recorder(f"{self.workloads.top}/perf", self.options.user)
        spent = {name: [] for name in self.commands}
        self._warm()
        for _ in range(rounds):
            for name in self.commands:
                self._sample(name, False, recorder)
                spent[name].append(recorder.spent())
        return {name: {what: statistics.median(one[what] for one in each) for what in set().union(*each)}
                for name, each in spent.items()}

    def _sample(self, name, is_first, recorder=None):
        self._begin()
        self._condition()
        try:
            sample = self._timed(name, recorder)
        finally:
            self._unmount()
        if name == "us" and is_first:
            self._verify()
        self._end()
        return sample

    def _timed(self, name, recorder):
        command = ["bash", "-o", "pipefail", "-c", self.commands[name]]
        user = {} if recorder else self.options.user
        environment = {**os.environ, "s": self.read_from, "n": self.row.workload}
        with open(f"{self.workloads.top}/log", "w+", encoding="utf-8", errors="replace") as log:
            start = time.perf_counter()
            process = subprocess.Popen(recorder.wrapped(command) if recorder else command, cwd=self.into,
                                       env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **user)
            _, status, usage = os.wait4(process.pid, 0)
            seconds = time.perf_counter() - start
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode != 0:
                log.seek(0)
                raise Failed(f"{self.row.name}: {name}: ended with code {process.returncode}: {log.read()[-2000:]}")
        return seconds, usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime

    def _verify(self):
        ours = f"{self.into}/data" if self.row.form == "directory" else f"{self.into}/data/{self.row.workload}"
        difference = trees.difference(self.tree, ours)
        if difference:
            raise Failed(f"{self.row.name}: what we wrote differs: {difference}")

    # Each run has a directory of its own. What earlier runs have left to write is nobody's time; what a run leaves in
    # the page cache is not waited for, of any program.
    def _begin(self):
        self.into = tempfile.mkdtemp(dir=above(self.workloads.top))
        give(self.into, self.options.user)
        if not self.options.quick:
            os.sync()
            self._touch_memory()

    # A virtual machine's host may take free memory back; who then uses it first waits for the host, longer than for
    # anything that is measured here. So what a run will fill is used before it.
    def _touch_memory(self):
        mmap.mmap(-1, self.touched, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE).close()

    # Few files are removed at once: see Written.
    def _end(self):
        if self.row.workload == "large":
            subprocess.run(["rm", "-rf", self.into], check=True)

    def to_write(self):
        """The most that the runs leave: bytes, files."""
        if self.row.workload == "large":
            return 0, 0
        with open(self.workloads.manifest(self.row.workload), "rb") as file:
            files = sum(1 for _ in file)
        runs = self.options.pairs * (len(self.commands) + 1)
        return self.filled * runs, files * runs

    def _warm(self):
        if self.row.source == "warm":
            subprocess.run(["find", *glob.glob(self.source), "-type", "f", "-exec", "cat", "{}", "+"], stdout=subprocess.DEVNULL,
                           check=True)

    def _condition(self):
        if self.row.source == "cold":
            self._cool()
        if self.row.source == "far":
            self._cool()
            self._mount()

    def _cool(self):
        if os.path.isfile(self.source):
            fd = os.open(self.source, os.O_RDONLY)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)
            return
        if self.options.quick:
            return  # it would cost everything else on the machine more than it shows
        with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as file:
            file.write("3")
        self._warm_programs()

    # The programs themselves must not be read from the disk in a timed run.
    def _warm_programs(self):
        for program in filter(shutil.which, ("bash", "tar", "cp", "rsync", "dd")):
            subprocess.run([program, "--version"], stdout=subprocess.DEVNULL, check=False)
        for program in (self.tools.launcher, self.tools.worker, self.tools.floor):
            subprocess.run([program], capture_output=True, check=False)
        with open(self.workloads.manifest(self.row.workload), "rb") as file:
            file.read()

    def _mount(self):
        point = f"{self.workloads.top}/far"
        os.makedirs(point, exist_ok=True)
        directory, name = os.path.split(self.source)
        self.mount = subprocess.Popen([self.tools.slow_mount, directory, str(READ_US), str(CALL_US), "-", "/dev/null", point])
        for _ in range(500):
            if os.path.ismount(point):
                break
            time.sleep(0.01)
        else:
            raise Failed(f"{self.row.name}: bench-slow-mount does not mount {point}")
        self.read_from = f"{point}/{name}"

    def _unmount(self):
        if self.mount:
            subprocess.run(["fusermount3", "-u", f"{self.workloads.top}/far"], check=True)
            self.mount.wait()
            self.mount = None

"""The CPU time of a row: runs `perf record` of each command once, and groups its samples by the kernel's activity."""
import collections
import subprocess

# The first that has one of its functions in a sample's stack is what the sample is of.
CALLS = [
    ("Landlock", ("hook_file_open", "hook_path_", "current_check_access", "is_access_to_paths_allowed")),
    ("seccomp", ("__secure_computing", "__seccomp_filter")),
    ("page faults", ("asm_exc_page_fault",)),
    ("wait and wake", ("x64_sys_futex", "rwsem_down", "sys_futex")),
    ("make directories", ("sys_mkdirat",)),
    ("name in a directory", ("ext4_add_nondir", "ext4_lookup")),
    ("new inode", ("ext4_create",)),
    ("open, the rest", ("sys_openat",)),
    ("write", ("sys_pwrite64", "sys_write", "sys_copy_file_range")),
    ("read", ("sys_pread64", "sys_read")),
    ("times", ("sys_utimensat",)),
    ("close", ("sys_close", "__fput")),
    ("other calls", ("do_syscall_64", "entry_SYSCALL")),
    ("interrupts", ("asm_sysvec", "asm_common_interrupt")),
]
OWN = "in the program"
SAMPLES_A_SECOND = 2999


class Recorder:
    """Runs a command below perf, as `user` (trial.Trial's)."""

    def __init__(self, path, user):
        self.path = path
        self.user = user

    def wrapped(self, command):
        become = []
        if self.user:
            become = ["setpriv", f"--reuid={self.user['user']}", f"--regid={self.user['group']}", "--clear-groups"]
        return ["perf", "record", "-q", "-e", "cpu-clock", "-F", str(SAMPLES_A_SECOND), "-g", "-o", self.path, "--",
                *become, *command]

    def spent(self):
        """{what: seconds} of the last recording."""
        script = subprocess.run(["perf", "script", "-i", self.path, "-F", "comm,ip,sym"], stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL, check=True, text=True, errors="replace").stdout
        spent = collections.Counter()
        for sample in script.split("\n\n"):
            command, _, stack = sample.strip().partition("\n")
            if stack and command.strip() not in ("bash", "setpriv", "perf"):
                spent[kind(stack)] += 1 / SAMPLES_A_SECOND
        return spent


def kind(stack):
    for name, functions in CALLS:
        if any(function in stack for function in functions):
            return name
    return OWN


def table(row_name, profile):
    """`profile`: {command: {what: seconds}}."""
    commands = list(profile)
    lines = [[row_name, *(command.replace("|", "\\|") for command in commands)], ["---"] * (len(commands) + 1)]
    for name in [name for name, _ in CALLS] + [OWN]:
        cells = [f"{1000 * profile[command].get(name, 0):.0f}" for command in commands]
        if any(cell != "0" for cell in cells):
            lines.append([name, *cells])
    lines.append(["all", *(f"{1000 * sum(profile[command].values()):.0f}" for command in commands)])
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)

"""Intended differences from a tool, and faults of the tool: each with its reason, and applied to both trees'
facts before they are compared. Documented for users in docs/nodestage.7 (EXTRACTION)."""
import dataclasses
from typing import Callable

SECOND = 1_000_000_000


@dataclasses.dataclass
class Trees:
    """Facts of the trees (facts.py); packed: at least what the archive says of directories."""
    reference: dict
    ours: dict
    packed: dict
    umask: int


@dataclasses.dataclass(frozen=True)
class Difference:
    reason: str
    apply: Callable  # (Trees): changes their facts


def umask_reference(trees):
    for facts in trees.reference.values():
        if facts["kind"] != "l":
            facts["mode"] &= 0o777 & ~trees.umask


def drop_set_id(trees):
    for facts in trees.reference.values():
        if facts["kind"] == "-":
            facts["mode"] &= 0o1777


def forget(field, kinds):
    def apply(trees):
        for tree in (trees.reference, trees.ours):
            for facts in tree.values():
                if facts["kind"] in kinds:
                    facts[field] = None
    return apply


def forget_top(trees):
    for tree in (trees.reference, trees.ours):
        tree[b""]["time"] = tree[b""]["mode"] = None


def whole_seconds(trees):
    for tree in (trees.reference, trees.ours):
        for facts in tree.values():
            if facts["time"] is not None:
                facts["time"] //= SECOND


def packed_directories(trees):
    for name, facts in trees.reference.items():
        ours = trees.ours.get(name)
        if facts["kind"] != "d" or ours is None or ours["kind"] != "d" or facts["time"] is None:
            continue
        if name not in trees.packed:
            facts["time"] = ours["time"] = None  # the archive says nothing of it
        elif trees.packed[name]["time"] // SECOND == ours["time"] // SECOND:
            facts["time"] = ours["time"]
        else:
            facts["time"] = trees.packed[name]["time"]


def packed_modes(trees):
    for name, facts in trees.reference.items():
        if facts["kind"] == "d" and facts["mode"] is not None and name in trees.packed:
            facts["mode"] = trees.packed[name]["mode"] & 0o777 & ~trees.umask


def forget_negative(trees):
    for name, facts in trees.reference.items():
        if facts["time"] is not None and facts["time"] < 0 and facts["time"] % SECOND and name in trees.ours:
            facts["time"] = trees.ours[name]["time"]


MODES = Difference("We treat every archive as tar does for a user without -p: modes lose set-uid, set-gid, sticky and the "
                   "umask's bits. This tool applies modes as they are.", umask_reference)
SET_ID = Difference("A copy loses set-uid and set-gid: the copy's owner is who runs the job.", drop_set_id)
LINK_TIMES = Difference("This tool leaves a symbolic link the time of its extraction; we give it the archive's.",
                        forget("time", "l"))
TOP = Difference("The archive says nothing of its top directory.", forget_top)
HOLES = Difference("This tool makes holes of zeros, or zeros of holes; we make the holes that the archive tells of.",
                   forget("sparse", "-"))
SUBSECONDS = Difference("libarchive gives whole seconds of this format.", whole_seconds)
LATE_DIRECTORIES = Difference("This tool sets a directory's time when it leaves it, and not again when the archive comes "
                              "back to it; we set what the archive says, at the end.", packed_directories)
BSDTAR_NEGATIVE = Difference("bsdtar writes -0.25 s as -1.75 and reads it so; we read it as POSIX and GNU tar do.",
                             forget_negative)
OPEN_DIRECTORIES = Difference("7-Zip leaves every directory open to its owner; we set what the archive says.", packed_modes)
LATE_MODES = Difference("unzip leaves a directory as it is that it has made for a member before; we set what the archive says.",
                        packed_modes)

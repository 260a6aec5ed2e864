"""The cgroup that may be divided among children, where this machine has one. Knows nothing of children."""

import os
from functools import lru_cache
from pathlib import Path

MEMBERSHIP = Path("/proc/self/cgroup")
MOUNTS = Path("/proc/self/mountinfo")


@lru_cache(maxsize=4)
def divisible(membership: Path = MEMBERSHIP, mounts: Path = MOUNTS) -> Path | None:
    """The nearest cgroup at or above our own whose children are bounded in memory and where we may make one."""
    top, own = _mount_point(mounts.read_text()), _own_path(membership.read_text())
    if top is None or own is None:
        return None
    here = top / own.lstrip("/")
    for folder in (here, *here.parents):
        if _divides_memory(folder) and os.access(folder, os.W_OK) and os.access(folder / "cgroup.procs", os.W_OK):
            return folder
        if folder == top:
            break
    return None


def _mount_point(mounts: str) -> Path | None:
    """Where the v2 hierarchy is mounted: the fifth field of the line whose type, after the dash, is cgroup2."""
    for line in mounts.splitlines():
        fields, _, kind = line.partition(" - ")
        if kind.startswith("cgroup2 "):
            return Path(fields.split()[4])
    return None


def _own_path(membership: str) -> str | None:
    return next((line[3:] for line in membership.splitlines() if line.startswith("0::")), None)


def _divides_memory(folder: Path) -> bool:
    try:
        return "memory" in (folder / "cgroup.subtree_control").read_text().split()
    except OSError:
        return False

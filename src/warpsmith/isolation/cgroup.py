"""The search for a divisible cgroup."""

import os
from functools import lru_cache
from pathlib import Path

MEMBERSHIP = Path("/proc/self/cgroup")
MOUNTS = Path("/proc/self/mountinfo")


@lru_cache(maxsize=4)
def find_divisible_cgroup(membership: Path = MEMBERSHIP, mounts: Path = MOUNTS) -> Path | None:
    """Return the nearest cgroup, from our own upwards, whose children get a memory limit; None without one."""
    top, own = _find_mount_point(mounts.read_text()), _find_own_path(membership.read_text())
    if top is None or own is None:
        return None
    here = top / own.lstrip("/")
    # A process may divide a cgroup if it may create folders in it and move processes through `cgroup.procs`.
    for folder in (here, *here.parents):
        if _divides_memory(folder) and os.access(folder, os.W_OK) and os.access(folder / "cgroup.procs", os.W_OK):
            return folder
        if folder == top:
            break
    return None


def _find_mount_point(mounts: str) -> Path | None:
    """Return the mount point of the version 2 hierarchy, or None."""
    # proc(5): the fifth field is the mount point, and the type follows the dash.
    for line in mounts.splitlines():
        fields, _, kind = line.partition(" - ")
        if kind.startswith("cgroup2 "):
            return Path(fields.split()[4])
    return None


def _find_own_path(membership: str) -> str | None:
    """Return this process's cgroup (version 2), or None."""
    # cgroups(7): the line of the version 2 hierarchy has number 0 and no controllers.
    return next((line[3:] for line in membership.splitlines() if line.startswith("0::")), None)


def _divides_memory(folder: Path) -> bool:
    """Return whether a cgroup's children have a memory controller."""
    try:
        return "memory" in (folder / "cgroup.subtree_control").read_text().split()
    except OSError:
        return False

"""The subordinate ids of an ordinary user."""

import os
import pwd
import shutil
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

ETC = Path("/etc")
WITHOUT_PROGRAMS = "newuidmap and newgidmap are not installed"
WITHOUT_RANGE = "grants no subordinate ids to"  # between the file and the user


@dataclass(frozen=True)
class SubordinateIds:
    """The first subordinate ids, their number, and the setuid programs that map them."""

    uid: int
    gid: int
    count: int
    newuidmap: Path
    newgidmap: Path


@lru_cache(maxsize=4)
def find_subordinate_ids(etc: Path = ETC, path: str | None = None) -> SubordinateIds | str:
    """Return the user's subordinate ids, or the reason for none. `path` replaces PATH."""
    if os.geteuid() == 0:
        return "root needs no subordinate ids"
    newuidmap, newgidmap = (shutil.which(name, path=path) for name in ("newuidmap", "newgidmap"))
    if newuidmap is None or newgidmap is None:
        return WITHOUT_PROGRAMS
    try:
        name = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # then newuidmap refuses too
        return f"uid {os.geteuid()} has no name in {etc / 'passwd'}"
    ranges = [(kind, _first_range(etc / kind, name)) for kind in ("subuid", "subgid")]
    for kind, found in ranges:
        if found is None:
            return f"{etc / kind} {WITHOUT_RANGE} {name}"
    (_, uids), (_, gids) = ranges
    assert uids is not None and gids is not None
    # One offset is used in both ranges, so the shorter range decides.
    return SubordinateIds(uids[0], gids[0], min(uids[1], gids[1]), Path(newuidmap), Path(newgidmap))


def _first_range(path: Path, name: str) -> tuple[int, int] | None:
    """Return the user's first range, or None."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        # subuid(5): each line is owner:first:count, where the owner is a login name or a uid.
        owner, _, rest = line.partition(":")
        first, _, count = rest.partition(":")
        if owner in (name, str(os.geteuid())) and first.isdigit() and count.strip().isdigit() and int(count) > 0:
            return int(first), int(count)
    return None

"""Bounded reads of a child's files that follow no links."""

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from warpsmith.isolation.policy import readable_bytes


@dataclass(frozen=True)
class RefusedFile:
    """A refused file of a child, and the reason."""

    path: Path
    reason: str


def collect_file(folder: Path, name: str, limit_bytes: int) -> bytes | RefusedFile:
    """Return a regular file's bytes; refuse other files."""
    # The child chose what the name leads to: no link is followed, and opening a FIFO must not wait for its writer.
    path = folder / name
    # A separator or `..` in the name would leave the folder.
    if Path(name).name != name:
        raise ValueError(f"{name!r} is not a plain file name")
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return RefusedFile(path, f"it cannot be opened: {error.strerror}")
    with os.fdopen(fd, "rb") as source:
        # The open descriptor is examined, not the path: the child could replace the file between two calls.
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            return RefusedFile(path, "it is not a plain file")
        if found.st_size > limit_bytes:
            return RefusedFile(
                path, f"it has {readable_bytes(found.st_size)}; at most {readable_bytes(limit_bytes)} are taken"
            )
        # At most `limit_bytes` are read, since the child may still append after fstat.
        return source.read(limit_bytes)

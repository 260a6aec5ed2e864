"""Takes what a confined child left in a folder, without being led elsewhere by it."""

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from warpsmith.isolation.policy import readable_bytes


@dataclass(frozen=True)
class Refused:
    """Why what the child left is not taken."""

    path: Path
    reason: str


def collect_file(folder: Path, name: str, limit_bytes: int) -> bytes | Refused:
    """The bytes of a plain file in `folder`. Links, pipes and devices that the child put there are refused."""
    path = folder / name
    if Path(name).name != name:
        raise ValueError(f"{name!r} is not a plain file name")
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return Refused(path, f"it cannot be opened: {error.strerror}")
    with os.fdopen(fd, "rb") as source:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            return Refused(path, "it is not a plain file")
        if found.st_size > limit_bytes:
            return Refused(
                path, f"it has {readable_bytes(found.st_size)}; at most {readable_bytes(limit_bytes)} are taken"
            )
        return source.read(limit_bytes)

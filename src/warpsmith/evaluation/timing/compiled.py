"""Where what torch compiled for our own tasks is kept, for the next baseline process and for several at once."""

import os
import secrets
import stat
from pathlib import Path

from warpsmith.base import Home

PASSABLE, OPEN_FOLDER, OPEN_FILE = 0o711, 0o777, 0o666


def compiled_folder() -> Path:
    """The folder, made where it is missing; for root, such that every baseline process can go on with it.

    A confined child of root is somebody else each time, and could not write into what the child before it made: a mode
    of torch would fail, and the baseline be weaker for it. So all of it is open, under a name that others cannot list.
    """
    around = Home.locate().cache / "inductor"
    around.mkdir(parents=True, exist_ok=True)
    inside = next(iter(sorted(around.glob("torch-*"))), around / f"torch-{secrets.token_hex(16)}")
    inside.mkdir(exist_ok=True)
    if os.geteuid() == 0:
        around.chmod(PASSABLE)
        open_up(inside)
    return inside


def open_up(folder: Path) -> None:
    """Let everybody who knows the folder write into it; links are left alone."""
    for place, _, names in os.walk(folder):
        _allow(Path(place), OPEN_FOLDER)
        for name in names:
            _allow(Path(place) / name, OPEN_FILE)


def _allow(path: Path, mode: int) -> None:
    try:
        found = path.lstat()
        if not stat.S_ISLNK(found.st_mode) and found.st_mode & mode != mode:
            path.chmod(stat.S_IMODE(found.st_mode) | mode)
    except FileNotFoundError:  # another process renames its temporary files meanwhile
        return

"""Whether a process of this machine is at work on a run, by a lock that the kernel drops with the process."""

import fcntl
from contextlib import AbstractContextManager
from pathlib import Path

from warpsmith.base import Home, digest, locked
from warpsmith.records import Run, RunState


def at_work(archive: str, run: str) -> AbstractContextManager[None]:
    """Held while a search runs. Shared: it says that somebody is there, and keeps nobody out."""
    return locked(_path(archive, run), shared=True)


def stands(archive: str, run: Run) -> str:
    """How a run stands: one that says running is, when its process is there."""
    running = run.state is RunState.RUNNING and _held(_path(archive, run.name))
    return str(run.state) if running else run.stands


def _path(archive: str, run: str) -> Path:
    return Home.here().data / "runs" / run / f"{digest(archive)}.lock"


def _held(path: Path) -> bool:
    try:
        with path.open() as handle:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False

"""Files that are whole or absent, locks between processes, and text that is UTF-8 or refused."""

import fcntl
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from warpsmith.base.errors import UsageError


def write_atomic(path: Path, content: str | bytes) -> None:
    """Write beside the target, sync, rename: a reader or a crash never sees half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = content.encode() if isinstance(content, str) else content
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(raw)
            out.flush()
            os.fsync(out.fileno())
        Path(name).replace(path)
    except BaseException:
        with suppress(FileNotFoundError):
            Path(name).unlink()
        raise


@contextmanager
def locked(path: Path, shared: bool = False) -> Iterator[None]:
    """Hold a lock on `path`, alone or with other sharers, waiting for it; the kernel drops it with the process."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield


@contextmanager
def one_of(paths: Sequence[Path], wait_s: float = 0.02) -> Iterator[None]:
    """Hold a lock on whichever of `paths` is free first."""
    while True:
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a") as handle:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    continue
                yield
                return
        time.sleep(wait_s)


def read_text(path: Path, limit_bytes: int = 1 << 20) -> str:
    """The text of a user's file, or a `UsageError` that says what is wrong with it."""
    try:
        size = path.stat().st_size
        if path.is_dir():
            raise UsageError(f"{path} is a folder, not a file.")
        if size > limit_bytes:
            raise UsageError(f"{path} has {size} bytes; at most {limit_bytes} are read. Give a smaller file.")
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise UsageError(f"File {path} does not exist.") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 (byte {error.start}). Save it as UTF-8.") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from None

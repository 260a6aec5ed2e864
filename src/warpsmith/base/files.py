"""Atomic writes, bounded reads of regular files, and file locks."""

import errno
import fcntl
import os
import stat
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from warpsmith.base.errors import MachineError, UsageError
from warpsmith.base.home import Home

CHUNK_BYTES = 1 << 20
RECORDS_BYTES = 1 << 30  # of a file with a record, a candidate or an exchange a line


@contextmanager
def explain_write_errors(path: Path) -> Iterator[None]:
    """Turn errors of writing `path` into MachineError for our folders and UsageError for others."""
    try:
        yield
    except OSError as error:
        said = f"{path} cannot be written: {error.strerror or error}."
        if Home.locate().contains(path):
            raise MachineError(f"{said} See to its folder, or name another with WARPSMITH_HOME.") from error
        raise UsageError(f"{said} See to its folder, or name another path.") from error


def check_writable(path: Path) -> None:
    """Raise an error early if `path` cannot be written."""
    with explain_write_errors(path):
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        check_regular(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path.parent).close()  # by trying: root may write everywhere, but not in /proc


def check_regular(path: Path) -> None:
    """Raise UsageError if `path` is a device, a pipe or a socket."""
    mode = path.stat().st_mode if path.exists() else stat.S_IFREG
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise UsageError(f"{path} is {_kind_of(mode)}, not a file. Name another path.")


def write_atomic(path: Path, content: str | bytes) -> None:
    """Write a file atomically by rename."""
    with explain_write_errors(path):
        check_regular(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_beside(path, content)


def _write_beside(path: Path, content: str | bytes) -> None:
    """Write and sync a temporary file, then rename it."""
    # A rename is atomic only within one file system, so the temporary file lies in the target's folder.
    raw = content.encode() if isinstance(content, str) else content
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(raw)
            out.flush()
            # Without fsync, a power cut after the rename could leave an empty file under the final name.
            os.fsync(out.fileno())
        Path(name).replace(path)
    except BaseException:
        with suppress(FileNotFoundError):
            Path(name).unlink()
        raise


@contextmanager
def hold_lock(path: Path, shared: bool = False, patience_s: float | None = None) -> Iterator[None]:
    """Hold a lock on `path`, exclusive or shared; the kernel releases it when the process ends.

    Wait for the lock without limit, or raise BlockingIOError after `patience_s` seconds.
    """
    # flock belongs to the open file. The kernel releases it when the last descriptor closes, after SIGKILL too, so a
    # lock file that stays behind locks nothing.
    path.parent.mkdir(parents=True, exist_ok=True)
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    # Mode "a" creates the file without truncating it and needs no separate check for existence.
    with path.open("a") as handle:
        if patience_s is None:
            fcntl.flock(handle, kind)
        else:
            _lock_within(handle.fileno(), kind, patience_s)
        yield


def _lock_within(handle: int, kind: int, patience_s: float, pause_s: float = 0.02) -> None:
    """Take a lock within `patience_s` seconds. Raise BlockingIOError otherwise."""
    end = time.monotonic() + patience_s
    while True:
        # flock has no timeout of its own, so the lock is polled.
        try:
            return fcntl.flock(handle, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= end:
                raise
        time.sleep(pause_s)


def is_locked(path: Path) -> bool:
    """Return whether another process holds an exclusive lock on `path`.

    The test takes a shared lock for an instant, so an exclusive locker has to retry.
    """
    try:
        with path.open() as handle:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # one that is not there, or is not ours to read: nothing is known of a holder
        return False
    return False


@contextmanager
def lock_any(paths: Sequence[Path], wait_s: float = 0.02) -> Iterator[None]:
    """Lock the first of `paths` that becomes free."""
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


def read_file(path: Path, limit_bytes: int = 1 << 20) -> bytes:
    """Return a regular file's bytes. Raise UsageError beyond the limit."""
    try:
        # Without O_NONBLOCK, opening a FIFO would wait for its writer.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            return _read_opened(handle, path, limit_bytes)
        finally:
            os.close(handle)
    except FileNotFoundError:
        raise UsageError(f"File {path} does not exist.") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from None
    except ValueError as error:  # a path with a zero byte
        raise UsageError(f"{str(path)!r} is no path: {error}.") from None


def _read_opened(handle: int, path: Path, limit_bytes: int) -> bytes:
    """Return the bytes of an open regular file within the limit."""
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode):
        raise UsageError(f"{path} is {_kind_of(found.st_mode)}, not a file.")
    raw = bytearray()
    # The size is checked before and during the read, since the file may grow meanwhile.
    if found.st_size > limit_bytes:
        raise _too_large(path, found.st_size, limit_bytes)
    while len(raw) <= limit_bytes and (more := os.read(handle, min(limit_bytes + 1 - len(raw), CHUNK_BYTES))):
        raw += more
    if len(raw) > limit_bytes:
        raise _too_large(path, len(raw), limit_bytes)
    return bytes(raw)


def _too_large(path: Path, size: int, limit_bytes: int) -> UsageError:
    """Return the error for a file beyond the limit."""
    return UsageError(f"{path} has {size} bytes; at most {limit_bytes} are read. Give a smaller file.")


def _kind_of(mode: int) -> str:
    """Return the kind of a special file as text."""
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")


def read_text(path: Path, limit_bytes: int = 1 << 20) -> str:
    """Return the text of a user's regular file. Raise UsageError if it is not UTF-8."""
    try:
        return read_file(path, limit_bytes).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 (byte {error.start}). Save it as UTF-8.") from None

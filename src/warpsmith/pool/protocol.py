"""Messages between a command and the resident pool, and the pool's socket.

A connection carries one greeting and one question. Both ends are processes of one user: the socket has mode 0600 in a
folder of mode 0700, and the pool asks the kernel for the peer's uid. The messages are JSON in frames, never pickle.
"""

import os
import socket
import stat
import struct
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

import warpsmith
from warpsmith.base import Home, MachineError, digest, digest_json
from warpsmith.isolation import Frame, FrameError, FrameReader, FrameWriter
from warpsmith.records import Model, Record

GREETING, EVALUATE, STATUS, STOP, REPLY = range(1, 6)
MESSAGE_BYTES = 64 << 20
ANSWER_S = 10.0  # for everything but an evaluation, which has limits of its own
LONG_S = 7 * 86400.0
# Variables that decide what an evaluation finds on this machine. A command with other values evaluates by itself.
VARIABLES = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "PATH", "LD_LIBRARY_PATH", "TMPDIR", "OMP_NUM_THREADS")
OURS = "WARPSMITH_"
IRRELEVANT = ("WARPSMITH_ARCHIVE", "WARPSMITH_DEBUG", "WARPSMITH_POOL")  # read by commands alone


class Greeting(Model):
    """The sender's package version and environment."""

    package: str
    environment: str

    @classmethod
    def here(cls) -> "Greeting":
        """Return the greeting of this process."""
        return cls(package=package_digest(), environment=environment_digest())


class Welcome(Model):
    """The answer to a greeting; `refused` holds a refusal's reason."""

    refused: str = ""


class PoolStatus(Model):
    """The state of a pool: its process, its evaluators, and its counts since the start."""

    pid: int
    package: str
    running_s: float  # since the start
    evaluators: int
    busy: int = 0
    waiting: int = 0
    done: int = 0
    faults: int = 0
    idle_minutes: float  # after which the pool ends


class EvaluationReply(Model):
    """A record, or the reason for none: a wrong request or an error."""

    record: Record | None = None
    refused: str = ""
    error: str = ""


class Connection:
    """One end of a connection, with the messages that it reads and writes."""

    def __init__(self, peer: socket.socket) -> None:
        self._socket = peer
        self._reader, self._writer = FrameReader(peer.fileno()), FrameWriter(peer.fileno())

    @classmethod
    def open(cls, path: Path) -> "Connection":
        """Connect to a pool. Raise OSError without one."""
        peer = socket.socket(socket.AF_UNIX)
        try:
            peer.connect(str(path))
        except OSError:
            peer.close()
            raise
        return cls(peer)

    @property
    def fd(self) -> int:
        """The descriptor of the socket."""
        return self._socket.fileno()

    @property
    def peer_uid(self) -> int:
        """The peer's uid, from the kernel."""
        size = struct.calcsize("3i")
        _, uid, _ = struct.unpack("3i", self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
        # SO_PEERCRED is filled by the kernel at connect time (unix(7)); a peer cannot forge its uid.
        return int(uid)

    def send(self, kind: int, message: Model | None = None, timeout_s: float = ANSWER_S) -> None:
        """Write one message. Raise ConnectionError on failure."""
        failed = self._writer.write(Frame(kind, message.text().encode() if message else b""), timeout_s)
        if failed is not None:
            raise ConnectionError(failed.detail)

    def receive(self, timeout_s: float = ANSWER_S) -> Frame:
        """Return the next message. Raise ConnectionError if none arrives."""
        found = self._reader.read(timeout_s, MESSAGE_BYTES)
        if isinstance(found, FrameError):
            raise ConnectionError(found.detail)
        return found

    def close(self) -> None:
        """Close the socket; the peer ends an evaluation for this connection."""
        with suppress(OSError):  # the peer has closed it already
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes a thread of ours that waits for the reply
        self._socket.close()


def run_folder() -> Path:
    """Return the sockets' folder. Raise MachineError if shared."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    folder = Path(base) / "warpsmith" if base else Path(tempfile.gettempdir()) / f"warpsmith-{os.getuid()}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # lstat: another user could have placed a link of this name in the shared temporary folder.
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise MachineError(
            f"{folder} is not a folder that only this user can enter. Remove it, or set XDG_RUNTIME_DIR."
        )
    return folder


def socket_path() -> Path:
    """Return the socket of this user's pool for the present folders."""
    home = Home.locate()
    # Folders with other archives and caches get another pool. 16 digits keep the path below the 108 bytes of sun_path.
    return run_folder() / f"pool-{digest_json([str(home.data), str(home.cache)])[:16]}.sock"


@cache
def package_digest() -> str:
    """Return a digest of the installed package's files."""
    # Sizes and times instead of contents: hashing the whole package would cost each command more time than the
    # connection.
    root = Path(warpsmith.__file__).parent
    files = sorted(path for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    rows = [[str(path.relative_to(root)), (found := path.stat()).st_size, found.st_mtime_ns] for path in files]
    return digest_json([str(root), rows])


def environment_digest() -> str:
    """Return a digest of the variables that affect an evaluation."""
    named = {name for name in os.environ if name in VARIABLES or name.startswith(OURS)} - {*IRRELEVANT}
    chosen = {name: os.environ[name] for name in named}
    return digest(*(f"{name}={value}" for name, value in sorted(chosen.items())))

"""The policy of a confined child: its paths and limits."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

GIB = 1 << 30
MIB = 1 << 20


@dataclass(frozen=True)
class ProcessLimits:
    """Bounds of the whole process tree; the numbers are upper bounds, never targets.

    `processes` counts threads too, as the kernel does. `file_bytes` bounds each file and the growth of the writable
    folders. With `address_space`, a single mapping above `memory_bytes` ends the child, also if its pages are never
    used. CUDA reserves terabytes of addresses, so a child with a GPU needs it off.
    """

    wall_s: float = 60.0
    cpu_s: int = 600
    memory_bytes: int = 4 * GIB
    processes: int = 256
    open_files: int = 1024
    file_bytes: int = 4 * GIB
    output_bytes: int = 4 * MIB
    address_space: bool = True

    def __post_init__(self) -> None:
        for name in ("wall_s", "cpu_s", "memory_bytes", "processes", "open_files", "file_bytes", "output_bytes"):
            if getattr(self, name) <= 0:
                raise ValueError(f"limit {name} is {getattr(self, name)}; it must be above 0")


@dataclass(frozen=True)
class Policy:
    """The paths, limits and rights of a child, which inherits no environment, descriptors or network.

    The child may create files in `write` folders. The caller must not follow links when it reads them, so it uses
    `collect_file`. `devices` shows the GPU. `require` names parts of
    `records.Confined` without which nothing is started.
    """

    read: tuple[Path, ...] = ()
    write: tuple[Path, ...] = ()
    limits: ProcessLimits = ProcessLimits()
    devices: bool = False
    seccomp: str = "general"  # or "none"
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None
    require: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.seccomp not in ("general", "none"):
            raise ValueError(f"seccomp profile {self.seccomp!r} does not exist; use general or none")


class Limit(enum.IntEnum):
    """The limit that stopped a child; numbers as in native/init.h."""

    WALL = 1
    CPU = 2
    MEMORY = 3
    OUTPUT = 4
    PROCESSES = 5
    FILE_SIZE = 6
    KILLED = 7

    def describe(self, limits: ProcessLimits) -> str:
        """Return a clause for a message, with the limit's value."""
        match self:
            case Limit.WALL:
                return f"it ran longer than {limits.wall_s:g} s of wall-clock time"
            case Limit.CPU:
                return f"it used more than {limits.cpu_s} s of processor time"
            case Limit.MEMORY:
                return f"it asked for more than {readable_bytes(limits.memory_bytes)} of memory"
            case Limit.OUTPUT:
                return f"it printed more than {readable_bytes(limits.output_bytes)}"
            case Limit.PROCESSES:
                return f"it started more than {limits.processes} processes and threads"
            case Limit.FILE_SIZE:
                return f"it wrote more than {readable_bytes(limits.file_bytes)} into a file or its folders"
            case Limit.KILLED:
                return "it was ended by the judge"


def readable_bytes(count: int) -> str:
    """Format a size: 512 bytes, 64 KiB, 1.5 GiB."""
    size, units = float(count), ["bytes", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1024 and len(units) > 1:
        size, units = size / 1024, units[1:]
    return f"{size:.4g} {units[0]}"

"""Artifacts for the tests of the runtime: hand-written tables of entries, compiled once by nvcc."""

import struct
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from warpsmith.base import Home, digest, hold_lock
from warpsmith.isolation import ProcessLimits
from warpsmith.languages.nvcc import HEADERS, Toolchain
from warpsmith.machines.worker import Observation, Raw

HERE = Path(__file__).parent
FLAGS = (
    "-shared",
    "-Xcompiler=-fPIC",
    "-O3",
    "-lineinfo",
    "-cudart=none",
    "-gencode=arch=compute_90a,code=[sm_90a,compute_90a]",
    f"-I{HEADERS}",
)
LIMITS = ProcessLimits(wall_s=20, cpu_s=20, memory_bytes=1 << 30, processes=64, output_bytes=1 << 20)


def artifact(source: Path, compressed: bool = False) -> Path:
    """The compiled file, kept in the cache by the content of the source and of its header."""
    toolchain = Toolchain.find()
    flags = FLAGS if compressed else (*FLAGS, "--no-compress")
    key = digest(source.read_bytes(), (HERE / "artifact.h").read_bytes(), toolchain.key, *flags)
    target = Home.locate().cache / "test-artifacts" / f"{key}.so"
    with hold_lock(target.with_suffix(".lock")):
        if not target.exists():
            with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
                made = Path(scratch) / "made.so"
                linked = f"-Xlinker={toolchain.runtime}"
                subprocess.run([toolchain.nvcc, *flags, source, linked, "-o", made], check=True)
                made.rename(target)
    return target


def floats(*values: float) -> Raw:
    """A vector of float32."""
    return Raw("float32", (len(values),), (1,), struct.pack(f"<{len(values)}f", *values))


def numbers(raw: Raw) -> list[float]:
    """The elements of a float32 vector."""
    return list(struct.unpack(f"<{len(raw.data) // 4}f", raw.data))


EIGHT = floats(*range(1, 9))
Run = Callable[[str], Observation]

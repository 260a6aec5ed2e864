"""Options of a compilation, and its command line."""

import re
from dataclasses import dataclass
from pathlib import Path

from warpsmith.base import UsageError
from warpsmith.isolation import ProcessLimits
from warpsmith.languages.nvcc.diagnose import SOURCE
from warpsmith.languages.nvcc.toolchain import Toolchain
from warpsmith.records import Task

HEADERS = Path(__file__).parent / "include"
ARTIFACT, DEPENDENCIES = "kernel.so", "kernel.d"
DEFAULT_ARCH = "sm_90a"
GIB = 1 << 30
LIMITS = ProcessLimits(wall_s=120, cpu_s=240, memory_bytes=6 * GIB, output_bytes=16 << 20, file_bytes=GIB)
DIALECT = (
    "-lineinfo",
    "-std=c++17",
    "--expt-relaxed-constexpr",  # torch's own build has it: kernels use std::numeric_limits in device code
)
FIXED = (
    "-O1",  # nvcc's -O is the host compiler's level. Host code only calls here, and -O3 doubles its compile time
    "-Xptxas=-v,-O3",  # device code, which cicc always optimizes in full
    *DIALECT,
    "--no-compress",  # the virtual GPU reads the PTX as it lies in the file
    "-shared",
    "-Xcompiler=-fPIC,-fvisibility=hidden",
    "-Xcudafe=--error_limit=20",
    "-Xlinker=-z,defs",
)
EXTENDED_LAMBDA = "--extended-lambda"  # a fifth of a small kernel's compile time, so only for texts that need it


@dataclass(frozen=True)
class CompileOptions:
    """Architecture, permissions of the task, and compiler limits."""

    arch: str = DEFAULT_ARCH
    fast_math: bool = False
    libraries: tuple[str, ...] = ()
    limits: ProcessLimits = LIMITS
    link_policy: bool = True  # off only to see whether behaviour alone holds (`warpsmith audit --without link`)

    def __post_init__(self) -> None:
        if not re.fullmatch(r"sm_\d{2,3}[af]?", self.arch):
            raise UsageError(f"Architecture {self.arch!r} is not one of nvcc's: write it as sm_90a or sm_86.")

    @classmethod
    def of(cls, task: Task, arch: str = DEFAULT_ARCH) -> "CompileOptions":
        """Return the options that a task allows."""
        return cls(arch=arch, fast_math=task.precision.fast_math, libraries=task.libraries)

    def flags(self) -> tuple[str, ...]:
        """Return the flags that decide the result; paths are not among them."""
        # The virtual GPU reads PTX (compute_NN), a real GPU runs machine code (sm_NN); both are in the artifact.
        number = self.arch.removeprefix("sm_")
        code = f"-gencode=arch=compute_{number},code=[compute_{number},sm_{number}]"
        fast = ("--use_fast_math",) if self.fast_math else ()
        allowed = tuple(f"-DWARPSMITH_LIBRARY_{name.upper()}=1" for name in self.libraries)
        return (*FIXED, code, *fast, *allowed)


def command(
    toolchain: Toolchain, options: CompileOptions, libraries: tuple[Path, ...], extra: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Return the command line, to be run in the source's folder."""
    linked = [f"-Xlinker={path}" for path in (*libraries, toolchain.runtime)]
    return (
        str(toolchain.nvcc),
        f"-ccbin={toolchain.host}",
        *options.flags(),
        *extra,
        f"-I{HEADERS}",
        "--cudart=none",
        *linked,
        SOURCE,
        "-o",
        ARTIFACT,
    )

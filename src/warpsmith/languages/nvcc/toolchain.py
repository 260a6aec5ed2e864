"""Which nvcc compiles, found in three places in order, and what its files are. Knows nothing of kernels."""

import functools
import os
import re
import shutil
import subprocess
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from warpsmith.base import MachineError, digest, find_compiler

HOME_VARIABLE = "WARPSMITH_CUDA_HOME"
ELF_MAGIC = b"\x7fELF"
ASK_S = 60  # for `nvcc --version` on a machine that is busy compiling
HOW = (
    f"No nvcc was found. Set {HOME_VARIABLE} to a CUDA toolkit, put nvcc on PATH, or install the compiler of the "
    "PyPI wheels with: pip install 'warpsmith[nvcc]'"
)


@dataclass(frozen=True)
class Toolchain:
    """A CUDA compiler with its headers and runtime, and the host compiler it drives."""

    nvcc: Path
    root: Path
    runtime: Path  # the shared CUDA runtime to link, by its full name: the wheels have no libcudart.so
    host: Path
    version: str
    origin: str

    @classmethod
    def find(cls) -> "Toolchain":
        """`WARPSMITH_CUDA_HOME`, then nvcc on PATH, then the PyPI wheels of this environment."""
        if home := os.environ.get(HOME_VARIABLE):
            return _at(Path(home).absolute(), HOME_VARIABLE)
        if found := shutil.which("nvcc"):
            return _at(root_of(Path(found)), "PATH")
        wheels = Path(sysconfig.get_paths()["purelib"]) / "nvidia" / "cu13"
        if (wheels / "bin" / "nvcc").exists():
            return _at(wheels, "PyPI wheels")
        raise MachineError(HOW)

    @property
    def key(self) -> str:
        """What stands for this toolchain in a cache key: versions, and the host compiler's file."""
        stamp = self.host.stat()
        return digest(self.version, str(self.host), str(stamp.st_size), str(stamp.st_mtime_ns), str(self.nvcc))

    def header(self, name: str) -> Path | None:
        """A header of the toolkit, if it has it."""
        path = self.root / "include" / name
        return path if path.exists() else None

    def library(self, stem: str) -> Path | None:
        """A shared library of the toolkit by the start of its name, newest first."""
        found = (path for folder in _library_folders(self.root) for path in sorted(folder.glob(f"{stem}.so*")))
        return next(found, None)


@functools.cache
def _at(root: Path, origin: str) -> Toolchain:
    nvcc = root / "bin" / "nvcc"
    if not nvcc.exists():
        raise MachineError(f"{origin} names {root}, which has no bin/nvcc. {HOW.partition('. ')[2]}")
    runtimes = [path for folder in _library_folders(root) for path in sorted(folder.glob("libcudart.so.[0-9]*"))]
    if not runtimes:
        raise MachineError(f"{root} has nvcc but no libcudart.so: install nvidia-cuda-runtime of the same version.")
    for header, wheel in (("cuda_runtime.h", "nvidia-cuda-runtime"), ("crt/host_config.h", "nvidia-cuda-crt")):
        if not (root / "include" / header).exists():
            raise MachineError(f"{root} has nvcc but no {header}: install {wheel} of the same version.")
    return Toolchain(nvcc, root, runtimes[0], find_compiler("nvcc"), _version(nvcc), origin)


def _library_folders(root: Path) -> tuple[Path, ...]:
    return tuple(folder for folder in (root / "lib64", root / "lib") if folder.is_dir())


def root_of(nvcc: Path) -> Path:
    """The toolkit that an nvcc on PATH belongs to; a script is asked, since it may start another one."""
    real = nvcc.resolve()
    with real.open("rb") as opened:
        if opened.read(4) == ELF_MAGIC:
            return real.parent.parent
    said = _ask(nvcc, "--dryrun", "-x", "cu", "-E", "/dev/null")
    here = re.search(r"^#\$ _HERE_=(.+)$", said, re.MULTILINE)
    if here is None:
        raise MachineError(f"{nvcc} is a script that starts no nvcc. Set {HOME_VARIABLE} to the CUDA toolkit.")
    return Path(here.group(1).strip()).resolve().parent


def _version(nvcc: Path) -> str:
    found = re.search(r"\bV(\d+\.\d+\.\d+)", _ask(nvcc, "--version"))
    if found is None:
        raise MachineError(f"{nvcc} --version names no version. {HOW.partition('. ')[2]}")
    return f"nvcc {found.group(1)}"


def _ask(nvcc: Path, *words: str) -> str:
    try:
        done = subprocess.run(
            [nvcc, *words], capture_output=True, text=True, errors="replace", timeout=ASK_S, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MachineError(f"{nvcc} does not run: {error}.") from error
    return done.stdout + done.stderr

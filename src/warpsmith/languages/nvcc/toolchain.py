"""The CUDA toolchain and its files."""

import functools
import os
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Mapping
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
    """A CUDA toolkit and its host compiler."""

    nvcc: Path
    root: Path
    runtime: Path  # the shared CUDA runtime to link, by its full name: the wheels have no libcudart.so
    host: Path
    version: str
    origin: str

    @classmethod
    def find(cls, environment: Mapping[str, str] = os.environ, packages: Path | None = None) -> "Toolchain":
        """Find nvcc by `WARPSMITH_CUDA_HOME`, PATH or the PyPI wheels."""
        if home := environment.get(HOME_VARIABLE):
            return _toolchain_at(Path(home).absolute(), HOME_VARIABLE)
        if found := shutil.which("nvcc", path=environment.get("PATH")):
            return _toolchain_at(root_of(Path(found)), "PATH")
        wheels = (packages or Path(sysconfig.get_paths()["purelib"])) / "nvidia" / "cu13"
        if (wheels / "bin" / "nvcc").exists():
            return _toolchain_at(wheels, "PyPI wheels")
        raise MachineError(HOW)

    @property
    def key(self) -> str:
        # A new host compiler under the same path has another size or time; `g++ --version` would cost each start.
        """Hash of versions and host compiler, for cache keys."""
        stamp = self.host.stat()
        return digest(self.version, str(self.host), str(stamp.st_size), str(stamp.st_mtime_ns), str(self.nvcc))

    def header(self, name: str) -> Path | None:
        """Return the path of a header, or None."""
        path = self.root / "include" / name
        return path if path.exists() else None

    def library(self, stem: str) -> Path | None:
        """Return the path of a shared library by its name's start, or None."""
        found = (path for folder in _library_folders(self.root) for path in sorted(folder.glob(f"{stem}.so*")))
        return next(found, None)


@functools.cache
def _toolchain_at(root: Path, origin: str) -> Toolchain:
    """Return a folder's toolchain. Raise MachineError if a part is missing."""
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
    """Return the folders of the toolkit's libraries."""
    return tuple(folder for folder in (root / "lib64", root / "lib") if folder.is_dir())


def root_of(nvcc: Path) -> Path:
    """Return the toolkit folder of an nvcc on PATH, which may be a script."""
    real = nvcc.resolve()
    with real.open("rb") as opened:
        if opened.read(4) == ELF_MAGIC:
            return real.parent.parent
    # A distribution's script may start another nvcc; the dry run prints the folder of the one it starts.
    said = _run_nvcc(nvcc, "--dryrun", "-x", "cu", "-E", "/dev/null")
    here = re.search(r"^#\$ _HERE_=(.+)$", said, re.MULTILINE)
    if here is None:
        raise MachineError(f"{nvcc} is a script that starts no nvcc. Set {HOME_VARIABLE} to the CUDA toolkit.")
    return Path(here.group(1).strip()).resolve().parent


def _version(nvcc: Path) -> str:
    """Return nvcc's version."""
    found = re.search(r"\bV(\d+\.\d+\.\d+)", _run_nvcc(nvcc, "--version"))
    if found is None:
        raise MachineError(f"{nvcc} --version names no version. {HOW.partition('. ')[2]}")
    return f"nvcc {found.group(1)}"


def _run_nvcc(nvcc: Path, *words: str) -> str:
    """Run nvcc and return its output."""
    try:
        done = subprocess.run(
            [nvcc, *words], capture_output=True, text=True, errors="replace", timeout=ASK_S, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MachineError(f"{nvcc} does not run: {error}.") from error
    return done.stdout + done.stderr

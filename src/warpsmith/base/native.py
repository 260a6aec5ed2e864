"""Native parts: C++ files of the package, built once by g++ into the cache. Knows nothing of what they do."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from warpsmith.base.errors import MachineError
from warpsmith.base.files import locked
from warpsmith.base.hashing import digest, digest_files
from warpsmith.base.home import Home

SECONDS = 900.0  # for one compiler run; the largest file takes about half a minute on a slow core
COMMON = ("-std=c++20", "-O2", "-Wall", "-Wextra")


@dataclass(frozen=True)
class Part:
    """One program or shared library: what it is built from. `watched` are files that only count for the hash."""

    name: str
    sources: tuple[Path, ...]
    watched: tuple[Path, ...] = ()
    flags: tuple[str, ...] = COMMON
    link: tuple[str, ...] = ()


def build(part: Part, home: Home | None = None) -> Path:
    """The built file, made now if the cache lacks it; many processes may ask at once."""
    folder = (home or Home.here()).cache / "native"
    key = digest(part.name, _key(part.flags), digest_files(part.sources), digest_files(part.watched), *part.link)
    target = folder / key / part.name
    if not target.exists():
        with locked(folder / f"{key}.lock"):
            if not target.exists():
                _make(part, folder, target)
    return target


def _make(part: Part, folder: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        with ThreadPoolExecutor(min(os.cpu_count() or 1, 8)) as pool:
            objects = list(pool.map(lambda source: _object(part, source, folder), part.sources))
        built = Path(scratch) / part.name
        linking = [flag for flag in part.flags if flag.startswith(("-O", "-f", "-m", "-g"))]
        _run([*linking, "-o", str(built), *map(str, objects), *part.link], part.name)
        built.replace(target)


def _object(part: Part, source: Path, folder: Path) -> Path:
    """Objects are kept by content too, so that a change of one file compiles one file."""
    key = digest(source.name, source.read_bytes(), _key(part.flags), digest_files(part.watched))
    target = folder / "objects" / f"{key}.o"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            made = Path(scratch) / "out.o"
            _run([*part.flags, "-c", str(source), "-o", str(made)], f"{part.name} ({source.name})")
            made.replace(target)
    return target


def _run(arguments: Sequence[str], what: str) -> None:
    command = [compiler(), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, errors="replace", check=False)
    except subprocess.TimeoutExpired:
        raise MachineError(f"Building {what} took more than {SECONDS:.0f} s; the machine is too busy.") from None
    if done.returncode:
        shown = done.stderr.strip()[-2000:]
        raise MachineError(f"Building {what} failed: {' '.join(command)}\n{shown}")


def compiler() -> str:
    """The C++ compiler: `CXX` when set, else g++."""
    name = os.environ.get("CXX") or "g++"
    found = shutil.which(name)
    if found is None:
        raise MachineError(f"The C++ compiler {name} is not on PATH. Install g++ 11 or newer, or set CXX.")
    return found


@lru_cache(maxsize=8)
def _version(path: str) -> str:
    done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.splitlines()[0] if done.stdout else path


@lru_cache(maxsize=1)
def _processor() -> str:
    """What -march=native may mean here: a cache shared by machines must not mix them."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return os.uname().machine
    return next((line for line in lines if line.startswith(("flags", "Features"))), os.uname().machine)


def _key(flags: tuple[str, ...]) -> str:
    native = _processor() if "-march=native" in flags else ""
    return digest(_version(compiler()), native, *flags)

"""Builds of native parts with g++, cached by content."""

import functools
import logging
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from warpsmith.base.errors import HarnessError, MachineError
from warpsmith.base.files import explain_write_errors, hold_lock
from warpsmith.base.hashing import digest
from warpsmith.base.home import Home

LOG = logging.getLogger(__name__)
STANDARD_FLAGS = ("-std=c++20", "-O2", "-g1", "-Wall", "-Wextra", "-fPIC")
HEADERS = (".h", ".hpp", ".inc")
DIAGNOSTIC_CHARACTERS = 4000


def build_native(
    name: str,
    sources: Sequence[Path],
    flags: Sequence[str] = (),
    includes: Sequence[Path] = (),
    shared: bool = False,
) -> Path:
    """Return the path of the built program or shared library, building it first if needed.

    `includes` are header folders of the package and enter the cache key; pass foreign ones as `-isystem` in `flags`.
    Flags that start with `-l`, `-L` or `-Wl,` are used for linking only.
    """
    compiler = find_compiler(f"the native part {name!r}")
    # The key holds every input of the compiler, so an edited source gets another folder and no stale build is loaded.
    options = (*STANDARD_FLAGS, *flags, *(("-shared",) if shared else ()))
    key = _cache_key(name, sources, includes, options, compiler)
    target = Home.locate().cache / "native" / key / name
    with explain_write_errors(target):
        if target.exists():
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
    with hold_lock(target.parent.with_suffix(".lock")):
        # A process that waited for the lock finds the file that the first one has built.
        if not target.exists():
            LOG.info("building %s from %d source file(s), once for this machine", name, len(sources))
            _build_into(target, compiler, sources, options, includes)
    return target


def find_compiler(user: str) -> Path:
    """Return the machine's C++ compiler. Raise MachineError with the install command."""
    found = shutil.which("g++") or shutil.which("c++")
    if found is None:
        raise MachineError(f"g++ is not on PATH; {user} needs it. Run: apt-get install g++")
    return Path(found).resolve()


def _cache_key(
    name: str, sources: Sequence[Path], includes: Sequence[Path], options: Sequence[str], compiler: Path
) -> str:
    """Return the hash of compiler, options and inputs."""
    stamp = compiler.stat()  # stands for the version: a call of `g++ --version` would cost every start 10 ms
    parts: list[str | bytes] = [name, str(compiler), str(stamp.st_mtime_ns), str(stamp.st_size), *options]
    for path in _list_inputs(sources, includes):
        parts += [path.name, path.read_bytes()]
    return digest(*parts)


def _list_inputs(sources: Sequence[Path], includes: Sequence[Path]) -> Iterable[Path]:
    """Yield the sources and the headers beside and below them."""
    yield from sources
    beside = {path for source in sources for path in source.parent.iterdir() if path.suffix in HEADERS}
    inside = {path for folder in includes for path in folder.rglob("*") if path.suffix in HEADERS}
    yield from sorted(beside | inside)


def _build_into(
    target: Path, compiler: Path, sources: Sequence[Path], options: Sequence[str], includes: Sequence[Path]
) -> None:
    """Compile changed sources, link and rename."""
    linking = [flag for flag in options if flag.startswith(("-l", "-L", "-Wl,", "-shared"))]
    compiling = [flag for flag in options if flag not in linking] + [f"-I{folder}" for folder in includes]
    compile_one = functools.partial(_compile, compiler, compiling, includes)
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        objects = list(pool.map(compile_one, sources))
    # The scratch folder lies beside the target: a rename is atomic within one file system only.
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".build-") as scratch:
        made = Path(scratch) / target.name
        threads = [flag for flag in compiling if flag.startswith(("-pthread", "-f", "-m", "-static"))]
        _run_compiler([compiler, *threads, *objects, *linking, "-o", made], target.name)
        made.rename(target)


def _compile(compiler: Path, flags: Sequence[str], includes: Sequence[Path], source: Path) -> Path:
    """Return the object file of one source, from the cache if source, headers and flags are unchanged."""
    made = (
        Home.locate().cache / "native" / "objects" / f"{_cache_key(source.name, [source], includes, flags, compiler)}.o"
    )
    if made.exists():
        return made
    with hold_lock(made.with_suffix(".lock")):  # two programs that share it may be built at the same time
        if not made.exists():
            with tempfile.TemporaryDirectory(dir=made.parent, prefix=".build-") as scratch:
                fresh = Path(scratch) / made.name
                _run_compiler([compiler, *flags, "-c", source, "-o", fresh], source.name)
                fresh.rename(made)
    return made


def _run_compiler(command: Sequence[str | Path], name: str) -> None:
    """Run the compiler. Raise HarnessError if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise HarnessError(
            f"{name} does not build (exit {done.returncode}):\n{done.stderr[-DIAGNOSTIC_CHARACTERS:].strip()}"
        )

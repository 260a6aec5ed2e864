"""The paths that a child must see, and the links to them."""

import os
import shutil
import site
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import warpsmith

INHERITED = ("LD_LIBRARY_PATH", "PYTHONPATH")  # search paths of code; no other variable of the user is passed on
MACHINE_PATHS = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/ssl/openssl.cnf",
)
LOADER = ("lib64/ld-linux*", "lib/ld-linux*", "etc/ld.so.cache")
# Libraries that the worker, the runtime and an artifact link, with those that a task may allow.
LIBRARIES = (
    *("libc.so", "libm.so", "libdl.so", "libpthread.so", "librt.so", "libgcc_s.so", "libstdc++.so", "libz.so"),
    *("libcublas", "libcudnn", "libnvrtc", "libnvJitLink"),
)
DRIVER = ("libcuda.so", "libcudadebugger.so", "libnvidia-")  # the driver opens its own parts by name
PACKAGE = Path(warpsmith.__file__).parent


def inherited_paths(name: str) -> list[str]:
    """Return the entries of a search path as absolute paths."""
    return [str(Path(entry).absolute()) for entry in os.environ.get(name, "").split(os.pathsep) if entry]


@lru_cache(maxsize=1)
def system_paths() -> tuple[Path, ...]:
    """Return the paths that Python, gcc and other programs read."""
    python = [sys.prefix, sys.base_prefix, sys.exec_prefix, *site.getsitepackages()]
    named = [entry for name in INHERITED for entry in inherited_paths(name)]
    candidates = [*MACHINE_PATHS, *python, *named, str(PACKAGE)]
    return tuple(dict.fromkeys(Path(entry) for entry in candidates if Path(entry).exists()))


@lru_cache(maxsize=2)
def library_paths(devices: bool = False) -> tuple[Path, ...]:
    """Return the files that a native program of ours links: the loader, the C and C++ libraries, a GPU's driver.

    Files and not their folders, which hold the packages of Python too, among them ours with the suite's tasks.
    """
    names = (*LIBRARIES, *(DRIVER if devices else ()))
    loader = [path for pattern in LOADER for path in Path("/").glob(pattern)]
    found = [path for folder in _library_folders() for name in names for path in folder.glob(f"{name}*")]
    return tuple(path for path in dict.fromkeys((*loader, *found)) if path.is_file())


def _library_folders() -> list[Path]:
    """Return the folders that the loader searches."""
    # A search path of the user must not name another ldconfig, so the program's folders are fixed.
    ldconfig = shutil.which("ldconfig", path="/sbin:/usr/sbin")
    told = subprocess.run([ldconfig, "-p"], capture_output=True, text=True).stdout if ldconfig else ""
    cached = [Path(line.partition(" => ")[2]).parent for line in told.splitlines() if " => " in line]
    usual = [Path(name) for name in ("/lib64", "/usr/lib64", "/lib", "/usr/lib")]
    return list(dict.fromkeys((*cached, *usual)))


@lru_cache(maxsize=1)
def machine_paths() -> tuple[Path, ...]:
    """Return the machine's paths without our package."""
    return tuple(shown for path in MACHINE_PATHS if Path(path).exists() for shown in _without_package(Path(path)))


def _without_package(path: Path) -> list[Path]:
    # The package holds the suite's tasks with their references, which tools around a worker must not read.
    """Return the path without our package inside."""
    if not PACKAGE.resolve().is_relative_to(path.resolve()):
        return [path]
    return [] if path.resolve() == PACKAGE.resolve() else [one for p in path.iterdir() for one in _without_package(p)]


@dataclass(frozen=True)
class VisiblePaths:
    """The folders and files to show, parents first, and links to them."""

    binds: tuple[tuple[str, bool], ...]  # canonical path, writable
    links: tuple[tuple[str, str], ...]  # path, target


def resolve_paths(read: Iterable[Path], write: Iterable[Path]) -> VisiblePaths:
    """Resolve paths to canonical ones. Raise FileNotFoundError for a missing path."""
    links: dict[str, str] = {}
    binds: dict[str, bool] = {}
    for path, writable in [*((path, False) for path in read), *((path, True) for path in write)]:
        real = _resolve(path.absolute(), links)
        binds[real] = writable or binds.get(real, False)
    # A path below a bound folder needs no mount of its own, unless its right to write differs.
    kept = {path: writable for path, writable in sorted(binds.items()) if not _covered(path, writable, binds)}
    inside = {path: target for path, target in links.items() if not _within_any(path, kept)}
    return VisiblePaths(tuple(kept.items()), tuple(inside.items()))


def _resolve(path: Path, links: dict[str, str], depth: int = 0) -> str:
    """Return the canonical path. Add each link on the way to `links`, by its canonical place."""
    # The kernel follows at most 40 links in one lookup (path_resolution(7)); more mean a loop.
    if depth > 40:
        raise OSError(f"{path} has more than 40 links on its way")
    done = Path("/")
    parts = path.parts[1:]
    for index, part in enumerate(parts):
        here = done.parent if part == ".." else done / part
        if here.is_symlink():
            target = here.readlink()
            links[str(here)] = str(target)
            return _resolve(Path(done, target, *parts[index + 1 :]), links, depth + 1)
        done = here
    if not done.exists():
        raise FileNotFoundError(f"{path} does not exist, so a confined child cannot be shown it")
    return str(done)


def _covered(path: str, writable: bool, binds: dict[str, bool]) -> bool:
    """Return whether the nearest listed parent shows the path with the same right."""
    above = [other for other in binds if other != path and _within(path, other)]
    return bool(above) and binds[max(above, key=len)] == writable


def _within_any(path: str, binds: Iterable[str]) -> bool:
    return any(_within(path, other) for other in binds)


def _within(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")

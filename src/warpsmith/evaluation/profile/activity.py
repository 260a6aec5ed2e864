"""Kernel names and times of a call, from CUPTI."""

import re
import sysconfig
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from warpsmith.base import HarnessError, MachineError, build_native, median
from warpsmith.evaluation.profile.ncu import ProfiledKernel, Refusal
from warpsmith.evaluation.profile.words import plain_name
from warpsmith.isolation import RefusedFile, collect_file
from warpsmith.languages.nvcc import Toolchain
from warpsmith.machines.cuda import ProfiledCall, Walls, run_under
from warpsmith.records import KernelProfile, MeasuredTime

SOURCE = Path(__file__).parent / "native" / "activity.cc"
# Fields: start and end in ns, grid, block, registers, static and dynamic shared bytes, name.
LINE = re.compile(r"(\d+) (\d+) ([\d,]+) ([\d,]+) (\d+) (-?\d+) (-?\d+) (\S.*)")
RECORDS, MOST_BYTES, RUN_S = "activity", 16 << 20, 60.0


@dataclass(frozen=True)
class Cupti:
    """The paths of CUPTI's library and headers."""

    include: Path
    library: Path


def activity(
    subject: ProfiledKernel, toolchain: Toolchain, walls: Walls = Walls.FULL, packages: Path | None = None
) -> tuple[KernelProfile, ...] | Refusal:
    """Return the kernels of one call, or a refusal."""
    # CUPTI's activity API needs no administrator rights, unlike counters, so times are available where
    # the driver reserves counters. The records come from the candidate's process and are never evidence
    # for a verdict.
    found = find_cupti(toolchain, packages)
    if found is None:
        return Refusal("CUPTI is not here (cupti.h and libcupti.so.13): pip install nvidia-cuda-cupti")
    try:
        library = _built(found, toolchain)
    except (HarnessError, MachineError) as error:
        return Refusal(f"the library that records activity does not build: {str(error)[:300]}")
    with tempfile.TemporaryDirectory(prefix="warpsmith-cupti-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        ended = run_under((), _call(subject, found, library, folder), walls, RUN_S)
        if ended.failure is not None:
            return Refusal(f"the call failed under CUPTI: {ended.failure.detail}")
        raw = collect_file(folder, RECORDS, MOST_BYTES)
    text = "" if isinstance(raw, RefusedFile) else raw.decode("utf-8", "replace")
    return read_activity(text) or Refusal("CUPTI recorded no kernel")


def read_activity(text: str) -> tuple[KernelProfile, ...]:
    """Parse activity records into profiles, in launch order."""
    groups: dict[tuple[str, ...], list[re.Match[str]]] = {}
    for found in sorted(filter(None, map(LINE.fullmatch, text.splitlines())), key=lambda match: int(match[1])):
        groups.setdefault((found[8], found[3], found[4]), []).append(found)
    return tuple(_kernel(group) for group in groups.values())


def find_cupti(toolchain: Toolchain, packages: Path | None = None) -> Cupti | None:
    """Find CUPTI; return None if it is not installed."""
    wheels = (packages or Path(sysconfig.get_paths()["purelib"])) / "nvidia" / "cu13"
    for root in (toolchain.root, toolchain.root / "extras" / "CUPTI", wheels):
        libraries = [path for folder in ("lib64", "lib") for path in sorted((root / folder).glob("libcupti.so.*"))]
        if (root / "include" / "cupti.h").exists() and libraries:
            return Cupti(root / "include", libraries[0])
    return None


def _built(cupti: Cupti, toolchain: Toolchain) -> Path:
    """Build the library that records activity."""
    headers = ("-isystem", str(cupti.include), "-isystem", str(toolchain.root / "include"))
    return build_native("libwarpsmith-activity.so", [SOURCE], (*headers, f"-Wl,{cupti.library}"), shared=True)


def _call(subject: ProfiledKernel, cupti: Cupti, library: Path, folder: Path) -> ProfiledCall:
    """Return the call with CUDA's injection variable set."""
    # The driver loads the library named by CUDA_INJECTION64_PATH into the process at its first call.
    env = {
        "CUDA_INJECTION64_PATH": str(library),
        "WARPSMITH_ACTIVITY": str(folder / RECORDS),
        "LD_LIBRARY_PATH": str(cupti.library.parent),
    }
    read = (library.parent, cupti.library.parent)
    return ProfiledCall(subject.artifact, subject.entry, subject.values, subject.runtime_folder, folder, env, read)


def _kernel(group: Sequence[re.Match[str]]) -> KernelProfile:
    """Return the profile of equal launches."""
    first = group[0]
    times = [(int(one[2]) - int(one[1])) / 1e3 for one in group]
    return KernelProfile(
        name=plain_name(first[8]),
        launches=len(group),
        grid=_three(first[3]),
        block=_three(first[4]),
        time=MeasuredTime(us=median(times), low_us=min(times), high_us=max(times), samples=len(times)),
        registers=int(first[5]),
        shared_bytes=int(first[6]) + int(first[7]),
    )


def _three(text: str) -> tuple[int, int, int]:
    """Return three comma-separated integers."""
    x, y, z = (int(part) for part in text.split(","))
    return x, y, z

"""`warpsmith doctor`: what this machine can do, and what to install for what it cannot."""

import importlib.metadata
import os
import platform
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from warpsmith import __version__
from warpsmith.base import WarpsmithError
from warpsmith.cli._options import Json
from warpsmith.cli._output import coloured, console, print_json
from warpsmith.llm import PROVIDERS
from warpsmith.machines.hardware import InstalledTool, administers, gpus, profiling_restricted, program
from warpsmith.records import Model

KEYS = tuple(dict.fromkeys(variable for row in PROVIDERS if not row.keyless for variable in row.keys))


class PartState(StrEnum):
    """Whether a part is here, partly here, or absent."""

    OK = "ok"
    PARTIAL = "partial"
    MISSING = "missing"


@dataclass(frozen=True)
class ProbeResult:
    """What a probe says: whether its part is here, what was found, and what to do where it is not."""

    state: PartState
    found: str
    remedy: str = ""


class Part(Model):
    """One thing that warpsmith can use, with what its probe says."""

    name: str
    state: PartState
    found: str
    remedy: str = ""


def _package() -> ProbeResult:
    return ProbeResult(PartState.OK, f"{__version__} on Python {platform.python_version()}")


def _torch() -> ProbeResult:
    try:
        found = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return ProbeResult(PartState.MISSING, "not installed", "pip install 'torch>=2.6'")
    return ProbeResult(PartState.OK, found)


def _gpu() -> ProbeResult:
    found = gpus()
    if found:
        names = ", ".join(f"{gpu.name} (sm_{gpu.capability.replace('.', '')}, {gpu.memory_mib} MiB)" for gpu in found)
        return ProbeResult(PartState.OK, f"{names}, driver {found[0].driver}")
    if shutil.which("nvidia-smi"):
        remedy = "nvidia-smi is here but lists no GPU: check the driver with nvidia-smi"
        return ProbeResult(PartState.PARTIAL, "driver without a GPU", remedy)
    remedy = (
        "nothing to do for the virtual GPU; for measured times use a machine with an NVIDIA GPU and driver 580 or newer"
    )
    return ProbeResult(PartState.MISSING, "none; kernels run on the virtual GPU", remedy)


def _nvcc() -> ProbeResult:
    from warpsmith.languages.nvcc import Toolchain

    found = Toolchain.find()
    return ProbeResult(PartState.OK, f"{found.version} from {found.origin} ({found.nvcc})")


def _compiler() -> ProbeResult:
    found = program("g++")
    if found is None:
        return ProbeResult(PartState.MISSING, "not found", "apt-get install g++")
    return ProbeResult(PartState.OK, f"{found.version} ({found.path})")


def _confinement() -> ProbeResult:
    from warpsmith.isolation import find_raising_command, probe_confinement

    found = probe_confinement()
    achieved, missing = ", ".join(found.achieved) or "none", "; ".join(found.missing)
    command = find_raising_command(found)
    if not found.at_floor:
        remedy = f"untrusted kernels are refused without --trust ({missing})"
        return ProbeResult(PartState.MISSING, achieved, f"{command}\n{remedy}" if command else remedy)
    state = PartState.PARTIAL if missing else PartState.OK
    remedies = [command and f"for the stronger form: {command}", missing and f"refused here: {missing}"]
    return ProbeResult(state, f"{found.form}: {achieved}", "\n".join(one for one in remedies if one))


def _profiler() -> ProbeResult:
    return describe_profiler(program("ncu"), bool(gpus()), bool(profiling_restricted()), administers())


def describe_profiler(
    found: InstalledTool | None, has_gpu: bool, is_restricted: bool, is_administrator: bool
) -> ProbeResult:
    """Return whether Nsight Compute can read the counters of a GPU, and how to let it."""
    if found is None:
        remedy = "install Nsight Compute; without it profiles come from ptxas and the virtual GPU"
        return ProbeResult(PartState.MISSING, "not found", remedy)
    if not has_gpu:
        return ProbeResult(PartState.PARTIAL, found.version, "there is no GPU to profile")
    if is_restricted:
        from warpsmith.evaluation.profile import CURE

        way = "; as it is, `warpsmith profile --trust` reads them outside the confinement" if is_administrator else ""
        remedy = f"the driver keeps counters for administrators (ERR_NVGPUCTRPERM): {CURE}{way}"
        return ProbeResult(PartState.PARTIAL, found.version, remedy)
    return ProbeResult(PartState.OK, f"{found.version} ({found.path})")


def _sanitizer() -> ProbeResult:
    found = program("compute-sanitizer")
    if found is None:
        remedy = "install it with the CUDA toolkit; without it the virtual GPU's checkers stand alone"
        return ProbeResult(PartState.MISSING, "not found", remedy)
    state = PartState.OK if gpus() else PartState.PARTIAL
    remedy = "" if gpus() else "there is no GPU to run it on"
    return ProbeResult(state, found.version, remedy)


def _keys() -> ProbeResult:
    found = [key for key in KEYS if os.environ.get(key)]
    if found:
        return ProbeResult(PartState.OK, ", ".join(found))
    remedy = f"set one of {', '.join(KEYS)}; without a model the tuner and the seeds are the search"
    return ProbeResult(PartState.MISSING, "none set", remedy)


PROBES: dict[str, Callable[[], ProbeResult]] = {
    "warpsmith": _package,
    "torch": _torch,
    "GPU": _gpu,
    "nvcc": _nvcc,
    "g++": _compiler,
    "confinement": _confinement,
    "ncu": _profiler,
    "compute-sanitizer": _sanitizer,
    "model keys": _keys,
}
COLOURS = {PartState.OK: "green", PartState.PARTIAL: "yellow", PartState.MISSING: "red"}


def look(name: str) -> Part:
    """What is said of one part; a probe that cannot answer is a row like the others."""
    try:
        answer = PROBES[name]()
    except WarpsmithError as error:
        answer = ProbeResult(PartState.MISSING, "cannot be used", str(error))
    return Part(name=name, state=answer.state, found=answer.found, remedy=answer.remedy)


def command(as_json: Json = False) -> None:
    """What this machine can do: GPU, compilers, confinement, profilers, model keys."""
    parts = [look(name) for name in PROBES]
    if as_json:
        print_json(parts)
        return
    out = console()
    for part in parts:
        out.print(coloured((f"{part.state:<7}", COLOURS[part.state]), f"  {part.name:<18}{part.found}"))
        for line in part.remedy.splitlines():
            out.print(f"{'':27}→ {line}", style="dim")

"""`warpsmith doctor`: what this machine can do, and what to install for what it cannot."""

import importlib.metadata
import os
import platform
import shutil
from collections.abc import Callable
from enum import StrEnum

from warpsmith import __version__
from warpsmith.base import MachineError
from warpsmith.cli._options import Json
from warpsmith.cli._output import coloured, console, print_json
from warpsmith.device import administers, gpus, profiling_restricted, program
from warpsmith.llm import PROVIDERS
from warpsmith.records import Model

KEYS = tuple(dict.fromkeys(variable for row in PROVIDERS if not row.keyless for variable in row.keys))
WHEELS = "pip install 'warpsmith[nvcc]'"


class State(StrEnum):
    """Whether a part is here, partly here, or absent."""

    OK = "ok"
    PARTIAL = "partial"
    MISSING = "missing"


class Part(Model):
    """One thing that warpsmith can use: what was found, and what to do where it is not there."""

    name: str
    state: State
    found: str
    remedy: str = ""


def _package() -> Part:
    return Part(name="warpsmith", state=State.OK, found=f"{__version__} on Python {platform.python_version()}")


def _torch() -> Part:
    try:
        found = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return Part(name="torch", state=State.MISSING, found="not installed", remedy="pip install 'torch>=2.6'")
    return Part(name="torch", state=State.OK, found=found)


def _gpu() -> Part:
    found = gpus()
    if found:
        names = ", ".join(f"{gpu.name} (sm_{gpu.capability.replace('.', '')}, {gpu.memory_mib} MiB)" for gpu in found)
        return Part(name="GPU", state=State.OK, found=f"{names}, driver {found[0].driver}")
    if shutil.which("nvidia-smi"):
        remedy = "nvidia-smi is here but lists no GPU: check the driver with nvidia-smi"
        return Part(name="GPU", state=State.PARTIAL, found="driver without a GPU", remedy=remedy)
    remedy = (
        "nothing to do for the virtual GPU; for measured times use a machine with an NVIDIA GPU and driver 580 or newer"
    )
    return Part(name="GPU", state=State.MISSING, found="none; kernels run on the virtual GPU", remedy=remedy)


def _nvcc() -> Part:
    from warpsmith.compile import Toolchain

    try:
        found = Toolchain.find()
    except MachineError as error:
        return Part(name="nvcc", state=State.MISSING, found="not found", remedy=f"{WHEELS}; {error}")
    return Part(name="nvcc", state=State.OK, found=f"{found.version} from {found.origin} ({found.nvcc})")


def _compiler() -> Part:
    found = program("g++")
    if found is None:
        return Part(name="g++", state=State.MISSING, found="not found", remedy="apt-get install g++")
    return Part(name="g++", state=State.OK, found=f"{found.version} ({found.path})")


def _confinement() -> Part:
    from warpsmith.confine import probe

    found = probe()
    achieved, missing = ", ".join(found.achieved), "; ".join(found.missing)
    if not found.at_floor:
        remedy = f"untrusted kernels are refused without --trust ({missing})"
        return Part(name="confinement", state=State.MISSING, found=achieved or "none", remedy=remedy)
    state = State.PARTIAL if missing else State.OK
    return Part(name="confinement", state=state, found=achieved, remedy=missing and f"refused here: {missing}")


def _profiler() -> Part:
    found = program("ncu")
    if found is None:
        remedy = "install Nsight Compute; without it profiles come from ptxas and the virtual GPU"
        return Part(name="ncu", state=State.MISSING, found="not found", remedy=remedy)
    if not gpus():
        return Part(name="ncu", state=State.PARTIAL, found=found.version, remedy="there is no GPU to profile")
    if profiling_restricted():
        from warpsmith.profile.ncu import CURE

        way = "; as it is, `warpsmith profile --trust` reads them outside the confinement" if administers() else ""
        remedy = f"the driver keeps counters for administrators (ERR_NVGPUCTRPERM): {CURE}{way}"
        return Part(name="ncu", state=State.PARTIAL, found=found.version, remedy=remedy)
    return Part(name="ncu", state=State.OK, found=f"{found.version} ({found.path})")


def _sanitizer() -> Part:
    found = program("compute-sanitizer")
    if found is None:
        remedy = "install it with the CUDA toolkit; without it the virtual GPU's checkers stand alone"
        return Part(name="compute-sanitizer", state=State.MISSING, found="not found", remedy=remedy)
    state = State.OK if gpus() else State.PARTIAL
    remedy = "" if gpus() else "there is no GPU to run it on"
    return Part(name="compute-sanitizer", state=state, found=found.version, remedy=remedy)


def _keys() -> Part:
    found = [key for key in KEYS if os.environ.get(key)]
    if found:
        return Part(name="model keys", state=State.OK, found=", ".join(found))
    remedy = f"set one of {', '.join(KEYS)}; without a model the tuner and the seeds are the search"
    return Part(name="model keys", state=State.MISSING, found="none set", remedy=remedy)


PROBES: tuple[Callable[[], Part], ...] = (
    _package,
    _torch,
    _gpu,
    _nvcc,
    _compiler,
    _confinement,
    _profiler,
    _sanitizer,
    _keys,
)
COLOURS = {State.OK: "green", State.PARTIAL: "yellow", State.MISSING: "red"}


def command(as_json: Json = False) -> None:
    """What this machine can do: GPU, compilers, confinement, profilers, model keys."""
    parts = [probe() for probe in PROBES]
    if as_json:
        print_json(parts)
        return
    out = console()
    for part in parts:
        out.print(coloured((f"{part.state:<7}", COLOURS[part.state]), f"  {part.name:<18}{part.found}"))
        if part.remedy:
            out.print(f"{'':27}→ {part.remedy}", style="dim")

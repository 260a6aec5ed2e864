"""The parts of this machine that warpsmith uses, with remedies."""

import importlib.metadata
import os
import platform
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from warpsmith import __version__
from warpsmith.base import WarpsmithError
from warpsmith.evaluation.profile import CURE
from warpsmith.isolation import find_raising_command, probe_confinement
from warpsmith.languages.nvcc import Toolchain
from warpsmith.llm import PROVIDERS
from warpsmith.machines.hardware import InstalledTool, administers, gpus, profiling_restricted, program
from warpsmith.records import Model

KEYS = tuple(dict.fromkeys(variable for row in PROVIDERS if not row.keyless for variable in row.keys))


class PartState(StrEnum):
    """Whether a part can be used."""

    OK = "ok"
    PARTIAL = "partial"
    MISSING = "missing"


@dataclass(frozen=True)
class ProbeResult:
    """A probe's state, finding and remedy."""

    state: PartState
    found: str
    remedy: str = ""


class Part(Model):
    """A probed part of this machine."""

    name: str
    state: PartState
    found: str
    remedy: str = ""


def _package() -> ProbeResult:
    return ProbeResult(PartState.OK, f"{__version__} on Python {platform.python_version()}")


def _torch() -> ProbeResult:
    try:
        # Metadata instead of an import, which takes seconds.
        found = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return ProbeResult(PartState.MISSING, "not installed", "pip install 'torch>=2.6'")
    return ProbeResult(PartState.OK, found)


def _gpu() -> ProbeResult:
    found = gpus()
    if found:
        names = ", ".join(f"{gpu.name} (sm_{gpu.capability.replace('.', '')}, {gpu.memory_mib} MiB)" for gpu in found)
        return ProbeResult(PartState.OK, f"{names}, driver {found[0].driver}")
    # A tool without a GPU shows a driver that does not see its device.
    if shutil.which("nvidia-smi"):
        remedy = "nvidia-smi is here but lists no GPU: check the driver with nvidia-smi"
        return ProbeResult(PartState.PARTIAL, "driver without a GPU", remedy)
    remedy = (
        "nothing to do for the virtual GPU; for measured times use a machine with an NVIDIA GPU and driver 580 or newer"
    )
    return ProbeResult(PartState.MISSING, "none; kernels run on the virtual GPU", remedy)


def _nvcc() -> ProbeResult:
    found = Toolchain.find()
    return ProbeResult(PartState.OK, f"{found.version} from {found.origin} ({found.nvcc})")


def _compiler() -> ProbeResult:
    found = program("g++")
    if found is None:
        return ProbeResult(PartState.MISSING, "not found", "apt-get install g++")
    return ProbeResult(PartState.OK, f"{found.version} ({found.path})")


def _confinement() -> ProbeResult:
    found = probe_confinement()
    achieved, missing = ", ".join(found.achieved) or "none", "; ".join(found.missing)
    command = find_raising_command(found)
    # Without one of the two forms, untrusted kernels are refused, so the part counts as missing.
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
    """Return whether Nsight Compute can read counters."""
    if found is None:
        remedy = "install Nsight Compute; without it profiles come from ptxas and the virtual GPU"
        return ProbeResult(PartState.MISSING, "not found", remedy)
    if not has_gpu:
        return ProbeResult(PartState.PARTIAL, found.version, "there is no GPU to profile")
    # ERR_NVGPUCTRPERM: the driver's setting NVreg_RestrictProfilingToAdminUsers.
    if is_restricted:
        advice = (
            "; as it is, `warpsmith profile --trust` reads them outside the confinement" if is_administrator else ""
        )
        remedy = f"the driver keeps counters for administrators (ERR_NVGPUCTRPERM): {CURE}{advice}"
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


def diagnose() -> list[Part]:
    """Return the state of every part of this machine."""
    return [probe(name) for name in PROBES]


def probe(name: str) -> Part:
    """Return the state of one part; a probe that raises counts as missing."""
    try:
        answer = PROBES[name]()
    except WarpsmithError as error:
        answer = ProbeResult(PartState.MISSING, "cannot be used", str(error))
    return Part(name=name, state=answer.state, found=answer.found, remedy=answer.remedy)

"""The machine at the moment of an evaluation, as a record keeps it."""

import importlib.metadata
import platform
from datetime import UTC, datetime
from functools import cache

import warpsmith
from warpsmith.base import MachineError
from warpsmith.isolation import probe
from warpsmith.languages.nvcc import Toolchain
from warpsmith.machines.hardware import GpuState, gpus, state
from warpsmith.records import Confined, Environment


def environment(device: str, gpu: str) -> Environment:
    """Where a record is made; `gpu` is the one that is modelled."""
    here = gpus() if device == "cuda" else ()
    name = here[0].name if here else f"virtual {gpu}"
    now = state() if here else GpuState()
    return Environment(
        device=name,
        hardware=f"{device}:{here[0].name if here else gpu}",
        driver=here[0].driver if here else "",
        toolchain=toolchain(),
        torch=importlib.metadata.version("torch"),
        python=platform.python_version(),
        clocks_mhz=now.clocks_mhz,
        throttling=now.told,
        others=now.processes,
        confined=confinement(device == "cuda"),
        package=warpsmith.__version__,
        when=datetime.now(UTC).replace(microsecond=0),
    )


def toolchain() -> str:
    """The compiler's version; none is for the compile stage to complain of."""
    try:
        return Toolchain.find().version
    except MachineError:
        return ""


@cache
def confinement(devices: bool) -> Confined:
    """What a child gets on this machine; tried once a process."""
    return probe(devices)

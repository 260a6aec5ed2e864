"""The machine and its software, as a record describes them."""

import importlib.metadata
import platform
from datetime import UTC, datetime
from functools import cache

import warpsmith
from warpsmith.base import MachineError
from warpsmith.isolation import probe_confinement
from warpsmith.languages.nvcc import Toolchain
from warpsmith.machines import Machine
from warpsmith.records import Confined, Environment


def environment(machine: Machine) -> Environment:
    """Return the machine and its software for a record."""
    now = machine.state()
    return Environment(
        device=machine.name,
        hardware=machine.hardware,
        uuid=machine.uuid,
        driver=machine.driver,
        toolchain=toolchain(),
        torch=importlib.metadata.version("torch"),
        python=platform.python_version(),
        clocks_mhz=now.clocks_mhz,
        throttling=now.told,
        others=now.processes,
        confined=confinement(bool(machine.driver)),
        package=warpsmith.__version__,
        when=datetime.now(UTC).replace(microsecond=0),
    )


def toolchain() -> str:
    """Return the compiler's version; empty without a compiler."""
    # The compile stage reports a missing compiler. A record without one is still useful.
    try:
        return Toolchain.find().version
    except MachineError:
        return ""


@cache
def confinement(devices: bool) -> Confined:
    """Return this machine's confinement, probed once a process."""
    # The probe starts a confined child, so every evaluation of a batch shares one answer.
    return probe_confinement(devices)

"""A GPU as data: limits, rates and pipes."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import PositiveFloat, PositiveInt, ValidationError, model_validator

from warpsmith.base import UsageError, read_text
from warpsmith.machines.hardware import SM_LIMITS, SmLimits
from warpsmith.records import Model

FOLDER = Path(__file__).parent / "gpus"


class Rates(Model):
    """Rates and latencies of a whole GPU."""

    copy_bytes_per_s: PositiveFloat
    l2_bytes_per_s: PositiveFloat
    l2_store_bytes_per_s: PositiveFloat
    tensor_flops_per_s: PositiveFloat
    atomic_sectors_per_s: PositiveFloat  # of one L2 slice
    atomic_lanes_per_s: PositiveFloat  # on one address
    launch_us: PositiveFloat
    graph_node_us: PositiveFloat
    memory_latency_clocks: PositiveFloat
    hit_latency_clocks: PositiveFloat  # of a load that the caches answer
    instruction_latency_clocks: PositiveFloat


class Description(Model):
    """One modelled GPU."""

    name: str
    capability: tuple[int, int]
    sm_count: PositiveInt
    clock_mhz: PositiveFloat
    memory_clock_mhz: PositiveFloat
    bus_bits: PositiveInt
    l2_bytes: PositiveInt
    limits: SmLimits
    rates: Rates
    pipes: Mapping[str, PositiveFloat]
    arch: str = ""  # to compile for; empty: the one of the compute capability
    measured: tuple[str, ...] = ()  # rates that were measured; the others are from data sheets, or assumed

    @model_validator(mode="before")
    @classmethod
    def _with_known_limits(cls, given: Any) -> Any:
        """Add the limits of the compute capability."""
        # The table in hardware/facts.py has them once. A description overrides only the values that
        # differ.
        if not isinstance(given, Mapping) or not isinstance(said := given.get("limits", {}), Mapping):
            return given
        known = SM_LIMITS.get(".".join(map(str, given.get("capability", ()))))
        return {**given, "limits": {**(known.model_dump() if known else {}), **said}}

    @model_validator(mode="after")
    def _measured_rates_exist(self) -> Self:
        """Raise ValueError if `measured` names no rate."""
        if unknown := set(self.measured) - set(Rates.model_fields):
            raise ValueError(f"measured names {', '.join(sorted(unknown))}, which are no rates")
        return self

    def settings(self) -> tuple[str, ...]:
        """Return the executor's arguments for this GPU."""
        limits = self.limits
        values: dict[str, object] = {
            "name": self.name,
            "cc_major": self.capability[0],
            "cc_minor": self.capability[1],
            "sm_count": self.sm_count,
            "clock_mhz": self.clock_mhz,
            "memory_clock_mhz": self.memory_clock_mhz,
            "bus_bits": self.bus_bits,
            "l2_bytes": self.l2_bytes,
            "max_threads_per_block": limits.threads_per_block,
            "max_threads_per_sm": limits.threads_per_sm,
            "max_blocks_per_sm": limits.blocks_per_sm,
            "registers_per_sm": limits.registers_per_sm,
            "shared_per_sm_bytes": limits.shared_per_sm_bytes,
            "shared_per_block_bytes": limits.shared_per_block_bytes,
            "shared_per_block_optin_bytes": limits.shared_per_block_optin_bytes,
            "copy_bytes_per_us": self.rates.copy_bytes_per_s / 1e6,
            "launch_us": self.rates.launch_us,
            "graph_node_us": self.rates.graph_node_us,
        }
        return tuple(f"{key}={value}" for key, value in values.items())


def descriptions() -> tuple[str, ...]:
    """Return the names of the described GPUs."""
    return tuple(sorted(path.stem.upper() for path in FOLDER.glob("*.toml")))


def describe(name: str) -> Description:
    """Return a GPU by name or file; raise UsageError on conflict."""
    # Records are keyed by the GPU's name. A file that takes a known name with other numbers is refused,
    # because records of both GPUs would be compared.
    path = _path(name)
    found = _read(path)
    if path.parent != FOLDER and found.name.upper() in descriptions() and found != describe(found.name):
        raise UsageError(
            f"GPU description {path} names itself {found.name} and differs from the {found.name} that is described "
            "here: records of the two would be taken for one. Give it another name."
        )
    return found


def gpu_identity(name: str) -> str:
    """Return a GPU's one spelling: name, else absolute path."""
    found = describe(name).name
    return found if found.upper() in descriptions() else str(Path(name).absolute())


def _read(path: Path) -> Description:
    """Read a description; raise UsageError if unusable."""
    try:
        return Description.model_validate(tomllib.loads(read_text(path)))
    except (tomllib.TOMLDecodeError, ValidationError) as error:
        raise UsageError(f"GPU description {path} cannot be used: {error}") from None


def _path(name: str) -> Path:
    """Return a description's file; raise UsageError if unknown."""
    if name.endswith(".toml"):
        return Path(name)
    if name.upper() not in descriptions():
        known = ", ".join(descriptions())
        raise UsageError(f"GPU {name} is not described; use {known}, or give a .toml file.")
    return FOLDER / f"{name.lower()}.toml"

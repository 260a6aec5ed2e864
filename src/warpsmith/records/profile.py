"""Profiles: counters of a call's kernels, their roofline position, the binding resource."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat

from warpsmith.records.finding import Finding, Place
from warpsmith.records.model import Model
from warpsmith.records.times import MeasuredTime, ModelledTime


class ProfileSource(StrEnum):
    """Source of a profile, best first for a GPU."""

    NCU = "ncu"  # hardware counters
    CUPTI = "cupti"  # names and times of kernels, no counters
    PTXAS = "ptxas"  # resources and what occupancy they allow
    VGPU = "vgpu"  # counters of the virtual GPU, modelled times


class Binding(StrEnum):
    """The resource that limits a kernel's time."""

    DRAM = "dram"
    L2 = "l2"
    L1 = "l1"  # the path from a load or store to the L1: requests that touch many sectors
    SHARED = "shared"
    ISSUE = "issue"  # issue slots and arithmetic pipes
    TENSOR = "tensor"
    LATENCY = "latency"  # waiting that nothing hides; launching included
    OCCUPANCY = "occupancy"  # too few warps to hide the waiting


class Metric(Model):
    """A number with name and unit; a share is in percent."""

    name: str
    value: float
    unit: str = ""


class HotLine(Model):
    """A line of source with its share of samples or instructions."""

    place: Place
    share: float
    of: str  # "stall samples", "warp instructions"
    code: str = ""


class RooflinePlace(Model):
    """Roofline position of a kernel or call, with the metrics that show it."""

    fraction: float | None = None  # 1 is at the roofline
    floor_us: float | None = None
    intensity: float | None = None  # operations a byte of DRAM
    flops_per_s: float | None = None
    binding: Binding | None = None
    shown_by: tuple[Metric, ...] = ()


class KernelProfile(Model):
    """One kernel with one launch shape; counters are means over the launches."""

    name: str
    launches: int = Field(ge=1)
    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    time: MeasuredTime | ModelledTime | None = None  # of one launch
    dram_read_bytes: float | None = None
    dram_written_bytes: float | None = None
    l2_bytes: float | None = None  # between the L1s and the L2
    sectors_per_request: float | None = None
    bank_conflicts: float | None = None
    flops: float | None = None
    issue_active: float | None = None  # shares, 0 to 1
    tensor_active: float | None = None
    occupancy: float | None = None  # achieved
    occupancy_limit: float | None = None  # what the launch could have
    limiter: str = ""  # of the occupancy: registers, shared memory, threads, blocks, grid
    stalls: tuple[Metric, ...] = ()  # the largest first, in percent of the cycles a warp waits
    registers: int | None = None
    spill_bytes: int | None = None
    shared_bytes: int | None = None
    place: RooflinePlace | None = None
    lines: tuple[HotLine, ...] = ()

    @property
    def spent_us(self) -> float:
        """Time of all launches in µs; 0 if unknown."""
        return self.time.us * self.launches if self.time else 0.0


class PassedOver(Model):
    """A better profile source that was unavailable, and the reason."""

    source: ProfileSource
    why: str


class Ceilings(Model):
    """Highest rates of a GPU, from probes or a data sheet."""

    gpu: str
    measured: bool
    read_bytes_per_s: PositiveFloat
    write_bytes_per_s: PositiveFloat
    copy_bytes_per_s: PositiveFloat  # read plus written
    l2_bytes_per_s: PositiveFloat | None = None
    matmul_flops_per_s: Mapping[str, PositiveFloat] = Field(default_factory=dict)  # by element type
    launch_us: NonNegativeFloat | None = None


class ProfileFacts(Model):
    """Facts of the profile stage: one call of one case."""

    stage: Literal["profile"] = "profile"
    source: ProfileSource
    passed_over: tuple[PassedOver, ...] = ()
    gpu: str = ""
    case: str = ""
    ceilings: Ceilings | None = None
    time: MeasuredTime | ModelledTime | None = None  # of the call's kernels, one after the other
    place: RooflinePlace | None = None  # of the call, by the task's formulas
    kernels: tuple[KernelProfile, ...] = ()
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()

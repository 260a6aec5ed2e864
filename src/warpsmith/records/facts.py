"""Facts of each stage, one model a stage, told apart by `stage`.

Absent facts are None, never zero.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from warpsmith.base import CONFIDENCE
from warpsmith.records.finding import Finding
from warpsmith.records.model import Model
from warpsmith.records.profile import KernelProfile, ProfileFacts
from warpsmith.records.task import Case, Group, Trial
from warpsmith.records.times import MeasuredTime, ModelledTime


class KernelResources(Model):
    """Resources of one `__global__` function as ptxas reports them."""

    name: str
    registers: int
    spill_store_bytes: int = 0
    spill_load_bytes: int = 0
    shared_bytes: int = 0
    stack_bytes: int = 0
    constant_bytes: int = 0
    barriers: int = 0

    @property
    def spilled_bytes(self) -> int:
        """Bytes spilled to local memory and back."""
        return self.spill_store_bytes + self.spill_load_bytes


class StaticFacts(Model):
    """Facts of the static stage: findings in the text, which never fail a kernel."""

    stage: Literal["static"] = "static"
    findings: tuple[Finding, ...] = ()


class CompileFacts(Model):
    """Facts of the compile stage: command, toolchain, artifact, kernels and findings."""

    stage: Literal["compile"] = "compile"
    command: tuple[str, ...] = ()
    toolchain: str = ""
    arch: str = ""
    cached: bool = False
    artifact: str = ""  # content hash; the file lies in the cache under this name
    libraries: tuple[str, ...] = ()
    kernels: tuple[KernelResources, ...] = ()
    symbols: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()


class KernelCounters(Model):
    """Counters of one kernel on the virtual GPU, summed over its launches."""

    name: str
    launches: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    thread_instructions: int
    warp_instructions: int
    classes: Mapping[str, int] = Field(default_factory=dict)
    global_load_sectors: int = 0
    global_store_sectors: int = 0
    global_load_bytes: int = 0
    global_store_bytes: int = 0
    unique_read_bytes: int = 0  # distinct sectors of a launch
    unique_written_bytes: int = 0
    local_bytes: int = 0
    registers: int = 0
    shared_wavefronts: int = 0
    bank_conflicts: int = 0
    atomics: int = 0
    divergent_branches: int = 0
    barriers: int = 0
    occupancy: float | None = None
    modelled: ModelledTime | None = None


class VirtualFacts(Model):
    """Facts of a virtual run: findings, counters, modelled time of one call."""

    stage: Literal["virtual"] = "virtual"
    case: str = ""
    findings: tuple[Finding, ...] = ()
    kernels: tuple[KernelCounters, ...] = ()
    modelled: ModelledTime | None = None
    log: str = ""  # what device printf wrote, trimmed
    unknown: str = ""  # the instruction or the runtime call that is not there
    worst_error: float | None = None  # largest error over its bound; above 1 is wrong


class CaseCheck(Model):
    """Check of one case: calls, largest error over its bound, determinism."""

    case: Case
    calls: int
    worst: float | None = None  # largest error over its bound; above 1 is wrong
    deterministic: bool | None = None


class CheckFacts(Model):
    """Facts of the check stage: cases, and evidence of a failure."""

    stage: Literal["check"] = "check"
    device: str = ""
    cases: tuple[CaseCheck, ...] = ()
    failed: Trial | None = None  # the draw that showed the fault, so that it can be made again
    findings: tuple[Finding, ...] = ()

    @property
    def calls(self) -> int:
        """Number of calls over all cases."""
        return sum(case.calls for case in self.cases)


FASTER_ABOVE = 1.01  # "faster" needs the whole interval above this ratio, "slower" below its reciprocal


class SpeedComparison(StrEnum):
    """Comparison that a confidence interval of a speedup supports."""

    FASTER = "faster"
    SLOWER = "slower"
    INCONCLUSIVE = "inconclusive"

    @classmethod
    def of(cls, low: float, high: float) -> "SpeedComparison":
        """Return the comparison for a ratio's interval."""
        if low > FASTER_ABOVE:
            return cls.FASTER
        return cls.SLOWER if high < 1 / FASTER_ABOVE else cls.INCONCLUSIVE


class Ratio(Model):
    """Baseline time over candidate time, with the interval of the ratio of medians."""

    value: float
    low: float
    high: float
    level: float = CONFIDENCE


class CaseTiming(Model):
    """Times of one case: single calls with fresh inputs and checked results."""

    case: Case
    time: MeasuredTime | ModelledTime  # device time, the headline
    kinds: Mapping[str, MeasuredTime] = Field(default_factory=dict)  # by kind of input; `time` is that of the slowest
    idle: MeasuredTime | None = None  # from an idle device, launch included: the arbiter
    call: MeasuredTime | None = None  # what a caller waits; the candidate's own claim
    baselines: Mapping[str, MeasuredTime] = Field(default_factory=dict)
    best: str = ""  # the name of the fastest baseline
    speedup: Ratio | None = None  # against the best one
    claim: SpeedComparison | None = None
    floor_us: float | None = None
    roofline: float | None = None  # floor over time
    launches: int | None = None
    longest: KernelProfile | None = None  # of the call's kernels the one that takes most, where counters are at hand
    discarded: int = 0  # calls that were disturbed
    repeated: bool = False  # by a process that held none of the candidate's host code
    notes: tuple[str, ...] = ()

    @property
    def roofline_us(self) -> float:
        """Least time that the roofline allows in µs; 0 if unknown."""
        return (self.roofline or 0.0) * self.time.us


class TimingFacts(Model):
    """Facts of the timing stage; `tier` says how baselines were measured."""

    stage: Literal["timing"] = "timing"
    tier: Literal["search", "claim", "modelled"]
    cache: Literal["cold", "warm"] = "cold"
    cases: tuple[CaseTiming, ...] = ()

    @property
    def seen(self) -> tuple[CaseTiming, ...]:
        """Cases without held-out shapes."""
        # Held-out shapes are drawn anew for each record, so their times do not compare two kernels.
        return tuple(case for case in self.cases if case.case.group is not Group.HELDOUT)


class SanitizerFacts(Model):
    """Facts of the sanitizer stage: case, finished tools and findings."""

    stage: Literal["sanitizer"] = "sanitizer"
    case: str = ""
    tools: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()


Facts = Annotated[
    StaticFacts | CompileFacts | VirtualFacts | CheckFacts | SanitizerFacts | TimingFacts | ProfileFacts,
    Field(discriminator="stage"),
]

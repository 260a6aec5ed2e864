"""What each stage learned, one model a stage, told apart by `stage`. Absent facts are None, never zero."""

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
    """What ptxas says one `__global__` function needs."""

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
        """To local memory and back."""
        return self.spill_store_bytes + self.spill_load_bytes


class StaticFacts(Model):
    """The static stage: signs in the text. They explain; alone they decide nothing."""

    stage: Literal["static"] = "static"
    findings: tuple[Finding, ...] = ()


class CompileFacts(Model):
    """The compile stage: what was run, how long it took, what came out."""

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
    """What one kernel did on the virtual GPU, summed over its launches."""

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
    """The virtual run: findings, counters, the modelled time of one call."""

    stage: Literal["virtual"] = "virtual"
    case: str = ""
    findings: tuple[Finding, ...] = ()
    kernels: tuple[KernelCounters, ...] = ()
    modelled: ModelledTime | None = None
    log: str = ""  # what device printf wrote, trimmed
    unknown: str = ""  # the instruction or the runtime call that is not there
    worst_error: float | None = None  # largest error over its bound; above 1 is wrong


class CaseCheck(Model):
    """One case that was checked: how many calls, with which draws, and how near the bound the worst one came."""

    case: Case
    calls: int
    worst: float | None = None  # largest error over its bound; above 1 is wrong
    deterministic: bool | None = None


class CheckFacts(Model):
    """The check stage: every case it ran, the held-out ones among them, and the evidence where it failed."""

    stage: Literal["check"] = "check"
    device: str = ""
    cases: tuple[CaseCheck, ...] = ()
    failed: Trial | None = None  # the draw that showed the fault, so that it can be made again
    findings: tuple[Finding, ...] = ()

    @property
    def calls(self) -> int:
        """Over all its cases."""
        return sum(case.calls for case in self.cases)


FASTER_ABOVE = 1.01  # what the interval of a ratio must clear before anyone says "faster", and its reciprocal "slower"


class SpeedComparison(StrEnum):
    """What an interval lets one say."""

    FASTER = "faster"
    SLOWER = "slower"
    INCONCLUSIVE = "inconclusive"

    @classmethod
    def of(cls, low: float, high: float) -> "SpeedComparison":
        """Of the interval of a ratio."""
        if low > FASTER_ABOVE:
            return cls.FASTER
        return cls.SLOWER if high < 1 / FASTER_ABOVE else cls.INCONCLUSIVE


class Ratio(Model):
    """Baseline over candidate: above 1 the candidate is faster. The interval holds the ratio of medians."""

    value: float
    low: float
    high: float
    level: float = CONFIDENCE


class CaseTiming(Model):
    """One case that was timed. Every number is of single calls with fresh inputs whose outputs were checked."""

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
        """What the roofline allows: the size of a case in one number; 0 where nobody knows."""
        return (self.roofline or 0.0) * self.time.us


class TimingFacts(Model):
    """The timing stage: tier `search` against cached baselines, tier `claim` against resident ones, A B B A."""

    stage: Literal["timing"] = "timing"
    tier: Literal["search", "claim", "modelled"]
    cache: Literal["cold", "warm"] = "cold"
    cases: tuple[CaseTiming, ...] = ()

    @property
    def seen(self) -> tuple[CaseTiming, ...]:
        """Without held-out shapes: those are drawn anew for every record, so their times say nothing of two kernels."""
        return tuple(case for case in self.cases if case.case.group is not Group.HELDOUT)


class SanitizerFacts(Model):
    """The sanitizer stage: the case, the tools that came to their end, and what they found."""

    stage: Literal["sanitizer"] = "sanitizer"
    case: str = ""
    tools: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()


Facts = Annotated[
    StaticFacts | CompileFacts | VirtualFacts | CheckFacts | SanitizerFacts | TimingFacts | ProfileFacts,
    Field(discriminator="stage"),
]

"""What each stage learned, one model a stage, told apart by `stage`. Absent facts are None, never zero."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from warpsmith.records.finding import Finding
from warpsmith.records.model import Model


class ModelledTime(Model):
    """A time computed by the virtual GPU's cost model. Never measured, never compared with a measured one."""

    kind: Literal["modelled"] = "modelled"
    us: float
    gpu: str
    binding: str = ""


class MeasuredTime(Model):
    """A time read from a clock on a real GPU: the median and the samples' spread."""

    kind: Literal["measured"] = "measured"
    us: float
    low_us: float
    high_us: float
    samples: int


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


Facts = Annotated[CompileFacts | VirtualFacts, Field(discriminator="stage")]

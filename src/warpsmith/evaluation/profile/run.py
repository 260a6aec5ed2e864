"""The profile of a call, from the best available source."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from warpsmith.evaluation.profile import counted, resources, virtual
from warpsmith.evaluation.profile.activity import activity
from warpsmith.evaluation.profile.ncu import MOST_LAUNCHES, Counted, ProfiledKernel, Refusal, count
from warpsmith.languages import find_language
from warpsmith.languages.nvcc import Toolchain
from warpsmith.machines.cuda import Walls
from warpsmith.machines.hardware import floor_us
from warpsmith.machines.virtual import Description
from warpsmith.machines.worker import Value
from warpsmith.records import (
    Ceilings,
    CompileFacts,
    Direction,
    KernelProfile,
    Language,
    MeasuredTime,
    ModelledTime,
    PassedOver,
    ProfileFacts,
    ProfileSource,
    RooflinePlace,
    Signature,
    Task,
    Trial,
)

if TYPE_CHECKING:
    from warpsmith.machines.worker import Sandbox
    from warpsmith.tasks.reference import Problem

MOST_BYTES = 3 << 29  # of the arguments of a call: they travel in one frame


@dataclass(frozen=True)
class ProfileJob:
    """A compiled candidate and the call to profile."""

    task: Task
    direction: Direction
    trial: Trial
    problem: "Problem"
    artifact: Path
    source: str
    compiled: CompileFacts
    language: str = Language.TORCH

    @property
    def signature(self) -> Signature:
        """The signature of the direction."""
        return self.task.signature(self.direction)

    def values(self) -> tuple[Value, ...]:
        """Return the call's arguments and passed results."""
        import torch

        from warpsmith.machines.worker import to_raw, to_values

        given = find_language(self.language).passed_results(self.problem.native)
        zeros = [to_raw(torch.zeros_like(result).cpu()) for result in given]
        return (*to_values(self.problem.arguments, self.signature), *zeros)


def profile_cuda(
    job: ProfileJob,
    toolchain: Toolchain,
    ceilings: Ceilings,
    trust: bool = False,
    count_events: Callable[..., Counted | Refusal] = count,
    see_activity: Callable[..., tuple[KernelProfile, ...] | Refusal] = activity,
) -> ProfileFacts:
    """Profile a call with the first source that works."""
    if (size := _size(job)) > MOST_BYTES:
        why = f"case {job.trial.case.name} has arguments of {size} bytes; a profiled call takes at most {MOST_BYTES}"
        return from_compiler(job, ceilings, (PassedOver(source=ProfileSource.NCU, why=why),))
    subject = ProfiledKernel(job.artifact, job.source, job.direction.value, job.values(), toolchain.runtime.parent)
    walls = (Walls.FULL, Walls.OWN, *((Walls.OPEN,) if trust else ()))
    found = count_events(subject, walls)
    if isinstance(found, Counted):
        rows = counted.kernels(found.launches, found.lines, ceilings)
        return _facts(job, ProfileSource.NCU, rows, ceilings, notes=_notes(found))
    no_counters = PassedOver(source=ProfileSource.NCU, why=found.why)
    seen = see_activity(subject, toolchain)
    if not isinstance(seen, Refusal):
        return _facts(job, ProfileSource.CUPTI, seen, ceilings, (no_counters,))
    no_times = PassedOver(source=ProfileSource.CUPTI, why=seen.why)
    return from_compiler(job, ceilings, (no_counters, no_times))


def profile_virtual(job: ProfileJob, gpu: Description, sandbox: "Sandbox") -> ProfileFacts:
    """Profile a call on the virtual GPU, else statically."""
    ceilings = virtual.datasheet_ceilings(gpu)
    seen = sandbox.run(job.artifact, job.direction.value, job.values())
    if seen.facts is None or not seen.facts.kernels or seen.failure is not None:
        why = seen.failure.detail if seen.failure else "the call launched no kernel"
        return from_compiler(job, ceilings, (PassedOver(source=ProfileSource.VGPU, why=why),))
    rows = virtual.kernels(seen.facts.kernels, gpu)
    whole = seen.facts.time(gpu)
    rates = () if gpu.measured else (f"none of the rates of the modelled {gpu.name} was measured",)
    notes = ("modelled on the virtual GPU, not measured; it tells no lines of source", *rates)
    return _facts(job, ProfileSource.VGPU, rows, ceilings, notes=notes, time=whole)


def from_compiler(job: ProfileJob, ceilings: Ceilings, passed: tuple[PassedOver, ...]) -> ProfileFacts:
    """Return a profile of resources, without times."""
    rows = resources.kernels(job.compiled)
    note = f"no kernel was seen running; the occupancy is for blocks of {resources.THREADS} threads"
    return _facts(job, ProfileSource.PTXAS, rows, ceilings, passed, (note,))


def _facts(
    job: ProfileJob,
    source: ProfileSource,
    rows: tuple[KernelProfile, ...],
    ceilings: Ceilings,
    passed: tuple[PassedOver, ...] = (),
    notes: tuple[str, ...] = (),
    time: ModelledTime | None = None,
) -> ProfileFacts:
    """Return the profile's facts with the call's place."""
    profiles = resources.add_compiler_facts(rows, job.compiled.kernels)
    whole = time or _whole(profiles)
    return ProfileFacts(
        source=source,
        passed_over=passed,
        gpu=ceilings.gpu,
        case=job.trial.case.name,
        ceilings=ceilings,
        time=whole,
        place=call_place(job, whole, profiles, ceilings) if whole else None,
        kernels=profiles,
        findings=job.compiled.findings,
        notes=notes,
    )


def call_place(
    job: ProfileJob, time: MeasuredTime | ModelledTime, rows: Sequence[KernelProfile], ceilings: Ceilings
) -> RooflinePlace:
    """Return the call's place under the roofline."""
    # The floor is that of the task and not of the kernel's own traffic: a kernel that moves too many
    # bytes must look far from its floor.
    written = float(sum(result.nbytes for result in job.problem.native))
    total, flops = _work(job, written)
    arithmetic = job.task.precision.arithmetic(job.trial.case.dtype)
    floor = floor_us(ceilings, max(0.0, total - written), written, flops, arithmetic)
    longest = max(rows, key=_spent_us, default=None)
    bound = longest.place if longest else None
    return RooflinePlace(
        fraction=floor / time.us,
        floor_us=floor,
        intensity=flops / total if flops and total else None,
        flops_per_s=flops / time.us * 1e6 if flops else None,
        binding=bound.binding if bound else None,
        shown_by=bound.shown_by if bound else (),
    )


def _work(job: ProfileJob, written: float) -> tuple[float, float]:
    """Return the least bytes and operations of a task."""
    # Without formulas the arguments and results count once each, which every kernel has to move.
    work = job.task.least(job.direction, job.trial.case)
    return (work.bytes, work.flops) if work else (_size(job) + written, 0.0)


def _size(job: ProfileJob) -> int:
    """Return the bytes of the arguments."""
    from warpsmith.tasks.inputs import tensors

    return sum(tensor.nbytes for tensor in tensors(job.problem.arguments))


def _whole(rows: Sequence[KernelProfile]) -> MeasuredTime | None:
    """Return the kernels' summed time, or None."""
    timed = [(row.time, row.launches) for row in rows if isinstance(row.time, MeasuredTime)]
    if not timed:
        return None
    us, low, high = (
        sum(getattr(time, part) * launches for time, launches in timed) for part in ("us", "low_us", "high_us")
    )
    return MeasuredTime(us=us, low_us=low, high_us=high, samples=min(time.samples for time, _ in timed))


def _spent_us(row: KernelProfile) -> float:
    """Return a kernel's microseconds in the call."""
    return row.time.us * row.launches if row.time else 0.0


def _notes(found: Counted) -> tuple[str, ...]:
    """Return the notes on a report's limits."""
    # ncu replays each launch alone from a cold cache, so its times add up to more than the call takes.
    notes = ["each launch alone, from a cold cache, as ncu replays it"]
    if found.limited:
        notes.append(f"the first {MOST_LAUNCHES} launches of the call were profiled; there may be more")
    if found.walls is not Walls.FULL:
        notes.append(f"ncu ran with {found.walls} walls around the worker")
    return tuple(notes)

"""The timing stage of the virtual GPU: modelled times."""
# The model counts the work of kernels. It cannot see work on the host or work of an earlier call, so
# signs of either are a quarantine: no kernel ran, the host read the data, or the same input cost almost
# nothing the second time.

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from warpsmith.base import median
from warpsmith.evaluation.check import PassedCall, called_cases
from warpsmith.evaluation.profile import longest
from warpsmith.machines.virtual import Description, LaunchRow
from warpsmith.records import (
    Case,
    CaseTiming,
    Direction,
    ModelledTime,
    Reason,
    StageResult,
    Task,
    TimingFacts,
    Twist,
    Verdict,
)

STAGE = "timing"
HOST_BYTES = 256  # what a call may bring to the host: a scalar or two, never a tensor
SHARE = 0.5  # of the instructions of the first time, that the same input must cost again


@dataclass(frozen=True)
class ModelledCall:
    """A call's modelled time, launches and counters."""

    time: ModelledTime
    rows: Sequence[LaunchRow]
    launches: int


def modelled(task: Task, direction: Direction, seen: Sequence[PassedCall], gpu: Description) -> StageResult:
    """Return a modelled time for each case, or a quarantine."""
    if not seen:
        return StageResult(stage=STAGE, verdict=Verdict.SKIP, detail="No call ran on the virtual GPU.")
    facts = TimingFacts(tier="modelled", cases=tuple(_cases(task, direction, seen, gpu)))
    doubt = doubt_of(seen)
    if doubt is None:
        return StageResult(stage=STAGE, verdict=Verdict.PASS, facts=facts)
    return StageResult(stage=STAGE, verdict=Verdict.QUARANTINE, reason=Reason.HIDDEN_WORK, detail=doubt, facts=facts)


def _cases(task: Task, direction: Direction, seen: Sequence[PassedCall], gpu: Description) -> Iterator[CaseTiming]:
    """Yield the median call of each case."""
    # Repeated inputs are left out: a cached result would lower the median.
    for case in called_cases(seen):
        fresh = [one for one in seen if one.step.trial.case.name == case.name and not one.step.again]
        calls = sorted(_calls(fresh, gpu), key=lambda call: call.time.us)
        if calls:
            yield timing_of(task, direction, case, calls[len(calls) // 2], gpu)


def _calls(fresh: Sequence[PassedCall], gpu: Description) -> Iterator[ModelledCall]:
    """Yield the modelled calls of fresh inputs."""
    launches = round(median([_launches(one) for one in fresh]))
    for one in fresh:
        time = one.facts.time(gpu) if one.facts else None
        if one.facts and time:
            yield ModelledCall(time, one.facts.kernels, launches)


def timing_of(task: Task, direction: Direction, case: Case, call: ModelledCall, gpu: Description) -> CaseTiming:
    """Return a case's modelled time with its floor."""
    floor = _floor_us(task, direction, case, gpu)
    return CaseTiming(
        case=case,
        time=call.time,
        floor_us=floor,
        roofline=floor / call.time.us if floor else None,
        launches=call.launches,
        longest=longest(call.rows, gpu),
        notes=("modelled, not measured",),
    )


def _floor_us(task: Task, direction: Direction, case: Case, gpu: Description) -> float | None:
    """Return the memory floor in microseconds, or None."""
    work = task.least(direction, case)
    return None if work is None else work.bytes / gpu.rates.copy_bytes_per_s * 1e6 + gpu.rates.launch_us


def doubt_of(seen: Sequence[PassedCall]) -> str | None:
    """Return the first sign of unseen work, or None."""
    return next(_doubts(seen), None)


def _doubts(seen: Sequence[PassedCall]) -> Iterator[str]:
    """Yield the signs of unseen work."""
    idle = [one for one in seen if one.facts and not one.facts.kernels]
    if idle:
        yield f"no kernel ran in {len(idle)} of {len(seen)} calls, and yet there were results"
    most = max((one.facts.host_bytes for one in seen if one.facts), default=0)
    if most > HOST_BYTES:
        yield f"a call brought {most} bytes to the host; at most {HOST_BYTES} are believed to be no work done there"
    for one in seen:
        first = _first_work(one, seen) if one.step.again else None
        if first is not None and _instructions(one) < SHARE * first:
            yield (
                f"the same input again took {_instructions(one)} instructions where it took {first} before: a result "
                "was kept"
            )


def _first_work(again: PassedCall, seen: Sequence[PassedCall]) -> int | None:
    """Return the least work of equal fresh calls, or None."""
    # The least, since a first call may try several variants to tune itself.
    trial = again.step.trial
    same = [
        _instructions(one)
        for one in seen
        if not one.step.again and one.step.trial.model_copy(update={"twist": Twist.NONE}) == trial
    ]
    return min(same, default=None)


def _instructions(one: PassedCall) -> int:
    """Return the thread instructions of a call."""
    return sum(row.counters.thread_instructions for row in one.facts.kernels) if one.facts else 0


def _launches(one: PassedCall) -> int:
    """Return the launches of a call."""
    return sum(row.launches for row in one.facts.kernels) if one.facts else 0

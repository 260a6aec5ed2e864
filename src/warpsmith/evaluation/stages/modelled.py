"""The timing stage of the virtual GPU: the modelled time of each case, from calls whose results were right.

The model counts what kernels do. What a candidate does elsewhere, or did before, is hidden from it, so signs of that
are a quarantine: no kernel ran, the host took the data, the same input again was all but free.
"""

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
    """A call by the model: its time, what its kernels did, how many launches it has."""

    time: ModelledTime
    rows: Sequence[LaunchRow]
    launches: int


def modelled(task: Task, direction: Direction, seen: Sequence[PassedCall], gpu: Description) -> StageResult:
    """Return the stage's result: a modelled time for each case, or a doubt."""
    if not seen:
        return StageResult(stage=STAGE, verdict=Verdict.SKIP, detail="No call ran on the virtual GPU.")
    facts = TimingFacts(tier="modelled", cases=tuple(_cases(task, direction, seen, gpu)))
    doubt = doubt_of(seen)
    if doubt is None:
        return StageResult(stage=STAGE, verdict=Verdict.PASS, facts=facts)
    return StageResult(stage=STAGE, verdict=Verdict.QUARANTINE, reason=Reason.HIDDEN_WORK, detail=doubt, facts=facts)


def _cases(task: Task, direction: Direction, seen: Sequence[PassedCall], gpu: Description) -> Iterator[CaseTiming]:
    for case in called_cases(seen):
        fresh = [one for one in seen if one.step.trial.case.name == case.name and not one.step.again]
        calls = sorted(_calls(fresh, gpu), key=lambda call: call.time.us)
        if calls:
            yield timing_of(task, direction, case, calls[len(calls) // 2], gpu)


def _calls(fresh: Sequence[PassedCall], gpu: Description) -> Iterator[ModelledCall]:
    launches = round(median([_launches(one) for one in fresh]))
    for one in fresh:
        time = one.facts.time(gpu) if one.facts else None
        if one.facts and time:
            yield ModelledCall(time, one.facts.kernels, launches)


def timing_of(task: Task, direction: Direction, case: Case, call: ModelledCall, gpu: Description) -> CaseTiming:
    """Return a case's modelled time with its memory floor and its longest kernel."""
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
    work = task.least(direction, case)
    return None if work is None else work.bytes / gpu.rates.copy_bytes_per_s * 1e6 + gpu.rates.launch_us


def doubt_of(seen: Sequence[PassedCall]) -> str | None:
    """Return the first sign of work that the model does not see, or None."""
    return next(_doubts(seen), None)


def _doubts(seen: Sequence[PassedCall]) -> Iterator[str]:
    """Yield signs of work that the model does not see."""
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
    """Return the least work of fresh calls with the same input; a first call may tune itself."""
    trial = again.step.trial
    same = [
        _instructions(one)
        for one in seen
        if not one.step.again and one.step.trial.model_copy(update={"twist": Twist.NONE}) == trial
    ]
    return min(same, default=None)


def _instructions(one: PassedCall) -> int:
    return sum(row.counters.thread_instructions for row in one.facts.kernels) if one.facts else 0


def _launches(one: PassedCall) -> int:
    return sum(row.launches for row in one.facts.kernels) if one.facts else 0

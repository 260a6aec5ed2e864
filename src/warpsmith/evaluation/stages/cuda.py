"""The stages on a real GPU: the same check through shared memory, and times of what is repeated without host code."""

import time
from collections.abc import Iterable
from contextlib import nullcontext
from functools import cache, partial
from typing import TYPE_CHECKING

from warpsmith.base import HarnessError
from warpsmith.evaluation.check import Step
from warpsmith.evaluation.choices import Choices
from warpsmith.evaluation.stages import stages
from warpsmith.evaluation.stages.desk import Desk
from warpsmith.evaluation.stages.stages import Stage
from warpsmith.evaluation.verify.trial import unfit, unless_lacking
from warpsmith.languages.nvcc import Toolchain
from warpsmith.machines.hardware import gpus
from warpsmith.machines.hardware.lease import calling, much_memory
from warpsmith.machines.virtual import describe
from warpsmith.machines.worker import Trouble
from warpsmith.machines.worker.session import Shown
from warpsmith.records import (
    MODES,
    Case,
    CompileFacts,
    Group,
    Reason,
    Record,
    StageResult,
    Trial,
    Verdict,
)
from warpsmith.tasks.host.opened import LocalTask, OpenTask
from warpsmith.tasks.inputs.heldout import LONG, near_cases

if TYPE_CHECKING:
    from warpsmith.evaluation.check.run import Solve
    from warpsmith.evaluation.timing.recording import Recordings
    from warpsmith.evaluation.timing.sample import Examine
    from warpsmith.evaluation.timing.sitting import Sitting
    from warpsmith.evaluation.timing.stage import Timer
    from warpsmith.evaluation.timing.subject import Subject as Timed
    from warpsmith.evaluation.timing.zeros import Zeros
    from warpsmith.machines.cuda.session import CudaSession
    from warpsmith.tasks.reference.program import Problem

TIMED = ("", "timing")  # last stages, when there is something to time
AFTER_CHECK = (*TIMED, "record")  # and to record
NOT_REPEATED = "its calls cannot be repeated without its host code, and so not be timed: {why}"
MUCH = 1 / 16  # of the GPU's memory, for arenas: references in float64 take as much again
USUAL_MIB = 80 << 10
MOST_COUNTED = 16  # launches of a call that are given credit
MOST_LAUNCHES = 8  # believed of a candidate that the virtual GPU could not run


def virtual_stage(desk: Desk) -> Stage:
    """The check on the virtual GPU before a real one is used, where the virtual one is of the same generation."""
    checked = stages.virtual_stage(desk, "virtual")

    def stage(record: Record) -> StageResult:
        skipped = unfit(describe(desk.choices.gpu), record.compiled or CompileFacts())
        return skipped or unless_lacking(checked(record))

    return stage


def check_stage(desk: Desk) -> Stage:
    """The plan's calls on the GPU, and those that are recorded: another process for these would take half a second."""

    def stage(record: Record) -> StageResult:
        from warpsmith.evaluation.check.run import Subject, check
        from warpsmith.evaluation.timing.host import begin_host
        from warpsmith.evaluation.timing.recording import PLACES, room_of
        from warpsmith.machines.cuda.room import room_around, room_for_all
        from warpsmith.machines.cuda.session import CudaSession
        from warpsmith.tasks.reference.fresh import outline

        direction, steps = record.candidate.direction, desk.steps("cuda")
        timed = _timed_cases(desk) if desk.choices.until in AFTER_CHECK else []
        if timed and (desk.choices.tier == "claim" or _lacks_baselines(desk, record, timed)):
            desk.wait_for_torch = begin_host(desk.target)  # it loads torch for seconds
        subject = desk.subject = _subject(desk, _launches(desk, record))
        outlines = (outline(desk.opened, direction, step.trial) for step in _one_a_case(steps))
        room = room_for_all(outlines)
        later = room_of(subject.outline(case) for case in timed) if timed else room
        runtime, call_s = Toolchain.find().runtime.parent, desk.choices.call_s
        arenas = room_around(room, later)
        with (
            much_memory() if is_much(arenas.bytes) else nullcontext(),
            CudaSession(desk.compiled(), direction.value, runtime, arenas, call_s, PLACES) as session,
            calling(),
        ):
            session.use(room)
            asked = Subject(desk.task, direction, solver(desk.opened), desk.plain)
            found = check(asked, steps, session).result
            if found.verdict is Verdict.PASS and timed:
                _record(desk, session, subject, timed)
        with calling():
            _after(desk.recording or found)
        return found

    return stage


def _lacks_baselines(desk: Desk, record: Record, cases: Iterable[Case]) -> bool:
    """Whether some mode of torch that is asked for is not kept for some case."""
    from warpsmith.evaluation.timing.baselines import load, store

    place, direction, cold = record.environment, record.candidate.direction, desk.choices.cache == "cold"
    kept = (load(store(place.hardware, place.torch, desk.task, direction, case, cold)) for case in cases)
    return any(one is None or one.lacking(desk.choices.baselines or MODES) for one in kept)


def is_much(arenas_bytes: int) -> bool:
    """Whether arenas take a large part of this GPU's memory; not every one tells how much it has."""
    return arenas_bytes > MUCH * ((gpus()[0].memory_mib or USUAL_MIB) << 20)


def _record(desk: Desk, session: "CudaSession", subject: "Timed", cases: list[Case]) -> None:
    """A call of every case that will be timed, written down for whoever repeats it without the host code."""
    from warpsmith.evaluation.timing.recording import Unrepeated, record_calls

    begin = time.monotonic()
    found = record_calls(session, subject, cases, partial(_examine, desk))
    seconds = time.monotonic() - begin
    if isinstance(found, Trouble):
        verdict, reason, detail = Verdict.FAIL, found.reason, found.detail
    elif isinstance(found, Unrepeated):
        verdict, reason, detail = Verdict.QUARANTINE, Reason.UNREPEATED, NOT_REPEATED.format(why=found)
    else:
        desk.recorded, verdict, reason, detail = found, Verdict.PASS, None, ""
    desk.recording = StageResult(stage="record", verdict=verdict, reason=reason, detail=detail, seconds=seconds)


def _after(result: StageResult) -> StageResult:
    """The result, once the GPU is seen to be well: a fault of one candidate never reaches the next."""
    from warpsmith.machines.cuda.health import FAULTS, see_healthy
    from warpsmith.machines.cuda.memory import give_back

    give_back()
    if result.reason is Reason.UNREPEATED or result.reason in FAULTS:
        see_healthy()
    return result


def record_stage(desk: Desk) -> Stage:
    """What became of the recording that was made after the check; the first process that repeats it begins.

    While others may use the GPU: under the clock it would take a quarter of the time.
    """

    def stage(_so_far: Record) -> StageResult:
        if desk.recording is None:
            raise HarnessError("The record stage stands before the check stage.")
        if desk.recorded is not None and desk.choices.until in TIMED and has_room_for(desk.recorded.arenas.bytes):
            _begin_sitting(desk, desk.recorded)
        return desk.recording

    return stage


def has_room_for(arenas_bytes: int) -> bool:
    """Whether this is not much, and half of the GPU's memory is left for others by whoever keeps it while it waits."""
    import torch

    free, total = torch.cuda.mem_get_info()
    return not is_much(arenas_bytes) and free - arenas_bytes > total / 2


def _begin_sitting(desk: Desk, recorded: "Recordings") -> None:
    desk.sitting = _sitting(desk, recorded)
    try:
        desk.sitting.player(0, next(iter(recorded.calls.values())))
    except Exception:  # noqa: BLE001 - whatever it is, whoever times begins another, and tells
        desk.close()


def _sitting(desk: Desk, recorded: "Recordings") -> "Sitting":
    from warpsmith.evaluation.timing.sitting import Sitting

    assert desk.subject is not None  # recorded with it
    return Sitting(desk.subject, Toolchain.find().runtime.parent, recorded.arenas, desk.choices.call_s)


def timing_stage(desk: Desk) -> Stage:
    """Times of the timing cases, or of the cases that were chosen."""

    def stage(record: Record) -> StageResult:
        if desk.recorded is None or desk.subject is None:
            raise HarnessError("The timing stage stands before the record stage.")
        timer = timer_for(record.environment.hardware, record.environment.torch, desk.choices)
        with desk.begun_sitting() or _sitting(desk, desk.recorded) as sitting:
            examine = partial(_examine, desk)
            found = timer.stage(sitting, desk.subject, _timed_cases(desk), examine, desk.recorded)
        return _after(found)

    return stage


def _subject(desk: Desk, launches: int) -> "Timed":
    from warpsmith.evaluation.timing.subject import Subject as Timed

    direction = desk.candidate.direction
    return Timed(desk.opened, desk.target, desk.task, direction, desk.compiled(), desk.plain, launches)


def timer_for(hardware: str, torch_version: str, choices: Choices) -> "Timer":
    """The timer of these choices, over what does not depend on a candidate."""
    from warpsmith.evaluation.timing.stage import Timer

    modes = choices.baselines or MODES
    return Timer(_zeros(), hardware, torch_version, choices.tier, choices.cache, modes)


@cache
def _zeros() -> "Zeros":
    from warpsmith.evaluation.profile import known_ceilings
    from warpsmith.evaluation.timing.zeros import Zeros

    toolchain = Toolchain.find()
    return Zeros(toolchain, known_ceilings(gpus()[0], toolchain))


def solver(opened: OpenTask) -> "Solve":
    """Problems on the GPU: a task of ours is solved there, a foreign one where it is confined."""
    from warpsmith.tasks.reference.program import moved, problem

    if isinstance(opened, LocalTask):
        return lambda direction, trial: problem(opened.program, direction, trial, "cuda")
    return lambda direction, trial: moved(opened.problem(direction, trial), "cuda")


def _one_a_case(steps: Iterable[Step]) -> list[Step]:
    return list({step.trial.case.name: step for step in steps}.values())


def _timed_cases(desk: Desk) -> list[Case]:
    """The chosen groups; else the timing cases, and for a claim shapes that nobody has seen as well."""
    claimed = (Group.TIMING, Group.HELDOUT) if desk.choices.tier == "claim" else (Group.TIMING,)
    groups = desk.choices.cases or claimed
    steps = desk.steps("cuda") if Group.HELDOUT in groups else ()
    cases = [step.trial.case for step in _one_a_case(steps)]
    drawn = [case for case in cases if case.group is Group.HELDOUT and not case.name.startswith(LONG)]
    near = near_cases(desk.task, desk.seed) if Group.HELDOUT in groups else ()
    written = [case for case in desk.task.cases if case.group in groups]
    return [*written[: desk.choices.most_cases], *drawn, *near] or list(desk.task.cases[:1])


def _examine(desk: Desk, trial: Trial) -> "Examine":
    from warpsmith.evaluation.check.fault import look

    def examine(call: "Problem", shown: Shown) -> Trouble | None:
        fault = look(shown, call, desk.task, desk.candidate.direction, trial).fault
        where = f"{trial.case.name}: {trial.case.shape}"
        return Trouble(fault.reason, f"{fault.detail} ({where}, {trial.draw})") if fault else None

    return examine


def _launches(desk: Desk, record: Record) -> int:
    """A call's launches as the virtual GPU counted them; else as many as the artifact has kernels.

    Bounded: a candidate that knows the virtual GPU could launch nothing there a hundred times, for the credit.
    """
    counted = [sum(row.launches for row in one.facts.kernels) for one in desk.seen if one.facts]
    if counted:
        return min(MOST_COUNTED, max(counted))
    kernels = record.compiled.kernels if record.compiled else ()
    return min(MOST_LAUNCHES, max(1, len(kernels)))

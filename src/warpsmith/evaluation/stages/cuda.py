"""The stages on a real GPU: check, capture and timing."""

import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING

from warpsmith.base import HarnessError
from warpsmith.evaluation.check import PlannedCall
from warpsmith.evaluation.config import EvaluationConfig
from warpsmith.evaluation.stages.evaluation import Artifact, Evaluation, LaunchCount, StageOutcome
from warpsmith.evaluation.stages.virtual import plan_calls
from warpsmith.languages.nvcc import Toolchain
from warpsmith.machines.cuda import CudaMachine
from warpsmith.machines.worker import Shown
from warpsmith.records import MODES, Case, Failure, Group, Reason, StageResult, Trial, Verdict
from warpsmith.tasks.inputs import LONG, near_cases

if TYPE_CHECKING:
    from warpsmith.evaluation.timing import (
        CapturedCalls,
        EmptyKernels,
        Examine,
        Timer,
        TimingSession,
        TimingSubject as Timed,
    )
    from warpsmith.machines.cuda import CudaSession
    from warpsmith.tasks.reference import Problem

TIMED = ("", "timing")  # last stages, when there is something to time
AFTER_CHECK = (*TIMED, "record")  # and to capture
NOT_REPEATED = "its calls cannot be repeated without its host code, and so not be timed: {why}"
# Launches explain a difference between the two clocks. A candidate that claims more of them would get
# more credit, so the number is bounded.
MOST_COUNTED = 16  # launches of a call that are given credit
MOST_LAUNCHES = 8  # believed of a candidate that the virtual GPU could not run


@dataclass(frozen=True)
class Capture:
    """The captured calls of every timed case."""

    subject: "Timed"
    recordings: "CapturedCalls"


@dataclass(frozen=True)
class CaptureAttempt:
    """The result of the capture, made in the check's session."""

    # A session of its own would cost half a second and another shared lease; design/replay.md has the
    # measurement.

    result: StageResult
    capture: Capture | None = None


@dataclass(frozen=True)
class TorchStart:
    """The start of torch's baseline process."""

    wait: Callable[[], None]


@dataclass(frozen=True)
class BegunReplays:
    """Replay processes that started before their exclusive lease."""

    timing_session: "TimingSession"

    @property
    def is_open(self) -> bool:
        """Whether the processes still live."""
        return self.timing_session.is_open

    def close(self) -> None:
        """End the processes."""
        self.timing_session.close()


def check_on_gpu(evaluation: Evaluation, artifact: Artifact, counted: LaunchCount | None) -> StageOutcome:
    """Check the planned calls; capture the timed ones."""
    # One session for both: the worker is started once, and the captured call follows the checked ones in
    # the same process. torch's baseline process loads meanwhile, if a baseline is missing.
    from warpsmith.evaluation.check import CheckSubject, check
    from warpsmith.evaluation.timing import ARENA_ADDRESSES, preload_torch, replay_room
    from warpsmith.machines.cuda import room_around, room_for_all
    from warpsmith.tasks.reference import outline

    machine, direction = _machine(evaluation), evaluation.candidate.direction
    steps = plan_calls(evaluation, machine)
    timed = _timed_cases(evaluation) if evaluation.config.until in AFTER_CHECK else []
    needs_torch = timed and (evaluation.config.tier == "claim" or _lacks_baselines(evaluation, timed))
    wait = preload_torch(evaluation.target, machine.uuid) if needs_torch and machine.given is None else None
    subject = _subject(evaluation, artifact, believed_launches(evaluation, counted))
    outlines = (outline(evaluation.opened, direction, step.trial) for step in _one_a_case(steps))
    margins = machine.access.margins
    room = room_for_all(outlines, margins)
    later = replay_room((subject.outline(case) for case in timed), margins) if timed else room
    # Captured parameters contain addresses of the arenas, so the arenas are made large enough for the
    # replays from the start.
    arenas, attempt = room_around(room, later), None
    with (
        machine.much_memory() if machine.is_much(arenas.bytes) else nullcontext(),
        machine.session(artifact.path, direction, arenas, evaluation.config.call_s, ARENA_ADDRESSES) as session,
        machine.calling(),
    ):
        session.use(room)
        solve, language = partial(machine.solve, evaluation.opened), evaluation.candidate.language
        asked = CheckSubject(evaluation.task, direction, solve, language)
        found = check(asked, steps, session, machine.limits).result
        if found.verdict is Verdict.PASS and timed:
            attempt = _capture(evaluation, session, subject, timed)
    with machine.calling():
        _after(machine, attempt.result if attempt else found)
    return StageOutcome(found, tuple(one for one in (attempt, TorchStart(wait) if wait else None) if one is not None))


def _machine(evaluation: Evaluation) -> CudaMachine:
    """Return the CUDA machine, or raise HarnessError."""
    if not isinstance(evaluation.machine, CudaMachine):
        raise HarnessError(f"A stage of a real GPU was asked to run on {evaluation.machine.hardware}.")
    return evaluation.machine


def _lacks_baselines(evaluation: Evaluation, cases: Iterable[Case]) -> bool:
    """Return whether a requested mode is not stored."""
    from warpsmith.evaluation.timing import baseline_path, read_baselines

    config, place, direction = evaluation.config, evaluation.record.environment, evaluation.candidate.direction
    cold = config.cache == "cold"
    kept = (
        read_baselines(baseline_path(place.hardware, place.torch, evaluation.task, direction, case, cold))
        for case in cases
    )
    return any(one is None or one.missing_modes(config.baselines or MODES) for one in kept)


def _capture(evaluation: Evaluation, session: "CudaSession", subject: "Timed", cases: list[Case]) -> CaptureAttempt:
    """Capture one call of every timed case."""
    from warpsmith.evaluation.timing import capture_calls

    begin = time.monotonic()
    is_claim = evaluation.config.tier == "claim"
    found = capture_calls(session, subject, cases, partial(_examine, evaluation, near=set()), is_claim)
    result = partial(StageResult, stage="record", seconds=time.monotonic() - begin)
    if isinstance(found, Failure):
        detail = NOT_REPEATED.format(why=found.detail) if found.reason is Reason.UNREPEATED else found.detail
        return CaptureAttempt(result(verdict=found.reason.verdict, reason=found.reason, detail=detail))
    return CaptureAttempt(result(verdict=Verdict.PASS), Capture(subject, found))


def _after(machine: CudaMachine, result: StageResult) -> StageResult:
    """Return the result; check the GPU after a fault."""
    # A crash or a hang of one candidate can leave the GPU in a bad state. The error must appear here and
    # not in the verdict of the next candidate.
    from warpsmith.machines.cuda import FAULTS, see_healthy

    machine.access.release_cache()
    if result.reason is Reason.UNREPEATED or result.reason in FAULTS:
        see_healthy(machine.access)
    return result


def take_capture(evaluation: Evaluation, attempt: CaptureAttempt) -> StageOutcome:
    """Return the capture; start a replay process early."""
    # Started under the shared lease: the start takes a quarter of the time that timing would hold the GPU
    # exclusively.
    capture = attempt.capture
    if capture is None:
        return StageOutcome(attempt.result)
    starts = evaluation.config.until in TIMED and _machine(evaluation).has_room_for(capture.recordings.arenas.bytes)
    begun = _begin_replays(evaluation, capture) if starts else None
    return StageOutcome(attempt.result, (capture, begun) if begun else (capture,))


def _begin_replays(evaluation: Evaluation, capture: Capture) -> BegunReplays | None:
    """Start the first replay process, or return None."""
    # A failure here is no verdict: the timing stage starts another process and reports the reason.
    timing_session = _open_timing_session(evaluation, capture)
    try:
        timing_session.replayer(0, next(iter(capture.recordings.calls.values())))
    except Exception:  # noqa: BLE001 - the timing stage starts another process, and reports what is wrong
        timing_session.close()
        return None
    return BegunReplays(timing_session)


def _open_timing_session(evaluation: Evaluation, capture: Capture) -> "TimingSession":
    """Return a timing session for a capture."""
    from warpsmith.evaluation.timing import TimingSession

    return TimingSession(capture.subject, _machine(evaluation), capture.recordings.arenas, evaluation.config.call_s)


def wait_for_torch(
    _evaluation: Evaluation, _capture: Capture, _begun: BegunReplays | None, start: TorchStart | None
) -> None:
    """Wait until the baseline process has loaded torch."""
    # Before the exclusive lease, so that other evaluations use the GPU during these seconds.
    if start is not None:
        start.wait()


def time_replays(
    evaluation: Evaluation, capture: Capture, begun: BegunReplays | None, _start: TorchStart | None
) -> StageOutcome:
    """Time the replays of every timed case."""
    environment = evaluation.record.environment
    timer = timer_for(_machine(evaluation), environment.torch, evaluation.config)
    if begun is not None and not (begun.is_open and begun.timing_session.is_fresh):
        begun.close()
        begun = None
    with begun.timing_session if begun else _open_timing_session(evaluation, capture) as timing_session:
        examine = partial(_examine, evaluation, near=set())
        cases = _timed_cases(evaluation)
        result = timer.time_cases(timing_session, capture.subject, cases, examine, capture.recordings)
        return StageOutcome(_after(_machine(evaluation), result))


def _subject(evaluation: Evaluation, artifact: Artifact, launches: int) -> "Timed":
    """Return the subject of timing."""
    from warpsmith.evaluation.timing import TimingSubject as Timed, draw_on

    direction = evaluation.candidate.direction
    path, language = artifact.path, evaluation.candidate.language
    draw = partial(draw_on, evaluation.machine.torch_device)
    return Timed(evaluation.opened, evaluation.target, evaluation.task, direction, path, language, launches, draw)


def timer_for(machine: CudaMachine, torch_version: str, config: EvaluationConfig) -> "Timer":
    """Return the timer of an evaluation."""
    from warpsmith.evaluation.timing import Timer

    modes = config.baselines or MODES
    release, empty = machine.access.release_cache, _empty_kernels(machine)
    return Timer(empty, machine.hardware, torch_version, config.tier, config.cache, modes, release)


@cache
def _empty_kernels(machine: CudaMachine) -> "EmptyKernels":
    """Return the empty kernels of a machine, once a process."""
    from warpsmith.evaluation.profile import find_ceilings
    from warpsmith.evaluation.timing import EmptyKernels

    toolchain = Toolchain.find()
    ceilings = machine.given.ceilings if machine.given else find_ceilings(machine.gpu, toolchain)
    return EmptyKernels(machine, toolchain, ceilings)


def _one_a_case(steps: Iterable[PlannedCall]) -> list[PlannedCall]:
    """Return one call of each case."""
    return list({step.trial.case.name: step for step in steps}.values())


def _timed_cases(evaluation: Evaluation) -> list[Case]:
    """Return the cases to time."""
    # A claim also times held-out shapes: a kernel that is fast only for the published shapes shows a gap
    # there. Long cases are left out, since they test sums and not speed.
    task, config = evaluation.task, evaluation.config
    claimed = (Group.TIMING, Group.HELDOUT) if config.tier == "claim" else (Group.TIMING,)
    given = _machine(evaluation).given
    groups = config.cases or (given.groups if given else claimed)
    steps = plan_calls(evaluation, evaluation.machine) if Group.HELDOUT in groups else ()
    cases = [step.trial.case for step in _one_a_case(steps)]
    drawn = [case for case in cases if case.group is Group.HELDOUT and not case.name.startswith(LONG)]
    near = near_cases(task, evaluation.seed) if Group.HELDOUT in groups else ()
    written = [case for case in task.cases if case.group in groups]
    return [*written[: config.most_cases], *drawn, *near] or list(task.cases[:1])


def _examine(evaluation: Evaluation, trial: Trial, near: set[tuple[str, str]] | None = None) -> "Examine":
    """Return the comparison of a call with its reference."""
    # A slice that is hardly beyond its bound may be so by chance. The first such call of a case and
    # family passes and the second fails: every call of a window has inputs of its own, which decide as
    # the three more inputs of a check do.
    from warpsmith.evaluation.check import check_call

    def examine(call: "Problem", shown: Shown) -> Failure | None:
        """Return a call's failure with its case, or None."""
        looked = check_call(shown, call, evaluation.task, evaluation.candidate.direction, trial)
        failure, kind = looked.failure, (trial.case.name, trial.family.value)
        if looked.near and near is not None and kind not in near:
            near.add(kind)
            return None
        where = f"{trial.case.name}: {trial.case.shape}"
        return replace(failure, detail=f"{failure.detail} ({where}, {trial.draw})") if failure else None

    return examine


def believed_launches(evaluation: Evaluation, counted: LaunchCount | None) -> int:
    """Return the launches of a call that count as credit."""
    # As the virtual GPU counted them, else as many as the artifact has kernels. Bounded, because a
    # candidate that recognizes the virtual GPU could launch an empty kernel there a hundred times.
    if counted is not None:
        return min(MOST_COUNTED, counted.launches)
    compiled = evaluation.record.compiled
    return min(MOST_LAUNCHES, max(1, len(compiled.kernels if compiled else ())))

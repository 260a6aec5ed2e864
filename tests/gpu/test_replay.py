"""On a real GPU: kernels are repeated without their host code, right and as fast, and a hook in it gains nothing."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest

from warpsmith.base import median
from warpsmith.evaluation import EvaluationConfig
from warpsmith.evaluation.check.fault import check_call
from warpsmith.evaluation.corpus import examine as tried, read_specimen
from warpsmith.evaluation.timing.capture import CapturedCalls, capture_alone, replay_room
from warpsmith.evaluation.timing.rules import StopRule, compare_speeds, find_slowest_kind, speed_ratio
from warpsmith.evaluation.timing.sample import USUAL, Calls, SamplingOptions, sample
from warpsmith.evaluation.timing.session import TimingSession
from warpsmith.evaluation.timing.subject import TimingSubject
from warpsmith.languages import language_of
from warpsmith.languages.nvcc import CompileOptions, Toolchain, compile
from warpsmith.machines.cuda.machine import CudaMachine
from warpsmith.machines.cuda.session import CALL_S, CudaSession
from warpsmith.machines.hardware.leases import Need, lease, much_memory
from warpsmith.machines.worker.session import Mode, Session, Shown
from warpsmith.records import Candidate, Case, Direction, Failure, Group, SpeedComparison, Trial, Verdict
from warpsmith.tasks.host import open_task
from warpsmith.tasks.reference.program import Problem
from warpsmith.tasks.suite import suite

pytestmark = [pytest.mark.gpu, pytest.mark.leases]
ROOT = Path(__file__).parents[2]
RULE = StopRule(width=0.0, least=9, most=9, seconds=5.0)
HALF_RULE = StopRule(width=0.0, least=5, most=5, seconds=5.0)  # of each kind, in one of two windows


def subject_of(path: Path, task: str, direction: Direction) -> TimingSubject:
    source, opened = path.read_text(), open_task(task)
    described, language = opened.describe(), language_of(source)
    candidate = Candidate(task=task, direction=direction, source=source, language=language)
    made = compile(candidate, described.signature(direction), CompileOptions.of(described))
    assert made.artifact is not None, made.result.detail
    return TimingSubject(opened, task, described, direction, made.artifact, language, launches=1)


def examined(subject: TimingSubject, trial: Trial) -> Callable[[Problem, Shown], Failure | None]:
    def examine(call: Problem, shown: Shown) -> Failure | None:
        fault = check_call(shown, call, subject.task, subject.direction, trial).failure
        return Failure(fault.reason, fault.detail) if fault else None

    return examine


def examined_calls(subject: TimingSubject, drawn: Iterator[tuple[Trial, Problem]]) -> Calls:
    return (subject.timed_call(trial, call, examined(subject, trial)) for trial, call in drawn)


def recordings(subject: TimingSubject, cases: Sequence[Case]) -> CapturedCalls:
    """As an evaluation makes them: large ones one at a time, and what the references took is given back."""
    runtime, room = Toolchain.find().runtime.parent, replay_room(subject.outline(case) for case in cases)
    with lease(Need.SHARED), much_memory() if CudaMachine.first().is_much(room.bytes) else nullcontext():
        found = capture_alone(subject, runtime, cases, partial(examined, subject), CALL_S)
        CudaMachine.first().access.release_cache()
    assert not isinstance(found, Failure), found
    return found


@pytest.mark.parametrize("direction", list(Direction))
@pytest.mark.parametrize("task", [task.name for task in suite()])
def test_a_published_kernel_is_repeated_right_and_as_fast(task: str, direction: Direction) -> None:
    subject = subject_of(ROOT / "kernels" / task / f"{direction}.cu", task, direction)
    cases = subject.task.group(Group.TIMING)
    recorded = recordings(subject, cases)
    with lease(Need.ALONE):
        compare_with_own_process(subject, cases, recorded)
        CudaMachine.first().access.release_cache()


def compare_with_own_process(subject: TimingSubject, cases: Sequence[Case], recorded: CapturedCalls) -> None:
    runtime, room = Toolchain.find().runtime.parent, replay_room(subject.outline(case) for case in cases)
    with (
        TimingSession(subject, CudaMachine.first(), recorded.arenas, CALL_S) as timing_session,
        CudaSession(subject.artifact, subject.direction.value, runtime, room) as worker,
    ):
        for case in cases:
            player = timing_session.replayer(0, recorded.calls[case.name])
            usual, others = (examined_calls(subject, drawn(case)) for drawn in (subject.calls, subject.others))
            repeated = sample(player, usual, SamplingOptions(RULE), others)
            assert not isinstance(repeated, Failure), f"{case.name}: {repeated.detail}"
            own = sample(worker, usual, SamplingOptions(RULE))
            assert not isinstance(own, Failure), f"{case.name}: {own.detail}"
            times = [median(found.events_us(Mode.QUEUED)) for found in (repeated, own)]
            assert abs(times[0] - times[1]) <= max(0.03 * times[1], 1.0), f"{case.name}: {times}"


@pytest.mark.parametrize("task", ["attention", "group_norm_silu", "layernorm", "max_pool", "softmax"])
def test_large_inputs_beside_usual_ones_make_no_kernel_faster(task: str) -> None:
    """The slowest kind of input sets the time, while torch is timed with usual inputs alone.

    Values change the power of a GPU and so its clocks: no kind needs to take as long as another. But the time must not
    be shorter than the time of usual inputs alone, by the rules that decide a comparison.
    """
    subject = subject_of(ROOT / "kernels" / task / "forward.cu", task, Direction.FORWARD)
    cases = subject.task.group(Group.TIMING)
    recorded = recordings(subject, cases)
    with lease(Need.ALONE), TimingSession(subject, CudaMachine.first(), recorded.arenas, CALL_S) as timing_session:
        for case in cases:
            player, usual = timing_session.replayer(0, recorded.calls[case.name]), (USUAL,)
            sides = (usual, subject.kinds(case), subject.kinds(case), usual)  # A B B A: a drift counts for neither
            alone, *beside, again = (slowest_us(player, subject, case, kinds) for kinds in sides)
            found = speed_ratio([*alone, *again], [*beside[0], *beside[1]])
            ratios = [median(alone) / median(beside[0]), median(again) / median(beside[1])]
            apart_us = abs(median([*alone, *again]) - median([*beside[0], *beside[1]]))
            assert compare_speeds(found, ratios, apart_us) is not SpeedComparison.FASTER, f"{case.name}: {found}"
        CudaMachine.first().access.release_cache()


def slowest_us(session: Session, subject: TimingSubject, case: Case, kinds: tuple[str, ...]) -> list[float]:
    """Return the times of the slowest of these kinds of input, timed by turns."""
    calls = (call for call in examined_calls(subject, subject.calls(case)) if call.kind in kinds)
    found = sample(session, calls, SamplingOptions(HALF_RULE, kinds=kinds))
    assert not isinstance(found, Failure), f"{case.name}: {found.detail}"
    times = found.queued_us(kinds)
    return times[find_slowest_kind(times)]


@pytest.mark.parametrize("name", ["71_early_answer", "60_unforked_side_stream", "08_got_hook"])
def test_who_changes_the_clock_of_its_own_process_gains_nothing(name: str) -> None:
    specimen = read_specimen(ROOT / "tests" / "exploits" / f"{name}.cu")
    assert specimen is not None
    found = tried(specimen, EvaluationConfig(device="cuda", baselines=("eager",), most_cases=2))
    assert not found.wrong and not found.is_void, found
    assert found.verdict is not Verdict.PASS or found.time_us is not None


@pytest.mark.parametrize("path", sorted((ROOT / "tests" / "honest").glob("*.cu")), ids=lambda path: path.stem)
def test_controls_can_be_repeated(path: Path) -> None:
    specimen = read_specimen(path)
    assert specimen is not None
    subject = subject_of(path, specimen.task, specimen.direction)
    case = subject.task.group(Group.TIMING)[0]
    recorded = recordings(subject, [case])
    with lease(Need.SHARED), TimingSession(subject, CudaMachine.first(), recorded.arenas, CALL_S) as timing_session:
        options = SamplingOptions(RULE)
        usual, others = (examined_calls(subject, drawn(case)) for drawn in (subject.calls, subject.others))
        found = sample(timing_session.replayer(0, recorded.calls[case.name]), usual, options, others)
        assert not isinstance(found, Failure), found.detail

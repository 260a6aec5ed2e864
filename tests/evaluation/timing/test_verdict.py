"""What is said of a case from its samples and baselines, and when it is doubted."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from warpsmith.base import HarnessError
from warpsmith.evaluation.timing.baseline_process import (
    LOAD_S,
    OLD_S,
    RELEASE_S,
    BaselineProcess,
    ResidentHost,
    baseline_policy,
    open_baseline_host,
    preload_torch,
)
from warpsmith.evaluation.timing.baseline_server import TorchReply, TorchRequest
from warpsmith.evaluation.timing.baselines import (
    Baseline,
    Baselines,
    baseline_path,
    measure_baselines,
    read_baselines,
    store_baselines,
)
from warpsmith.evaluation.timing.rules import Floor
from warpsmith.evaluation.timing.sample import EmptyKernelTimes, Samples
from warpsmith.evaluation.timing.verdict import TimeBounds, TimedCase, bound_times, conclude_case
from warpsmith.evaluation.timing.window import Window
from warpsmith.machines.worker.session import Clocks
from warpsmith.records import (
    Case,
    Ceilings,
    Direction,
    Dtype,
    Group,
    Precision,
    Reason,
    SpeedComparison,
    TorchMode,
    Work,
)
from warpsmith.tasks.reference.program import Problem
from warpsmith.tasks.suite import suite_program

CASE = Case(name="c", group=Group.TIMING, axes={"rows": 4096, "cols": 8192}, dtype=Dtype.FLOAT32)
NULL = EmptyKernelTimes(queued_us=3.0, idle_us=10.0, beside_us=40.0)
CEILINGS = Ceilings(
    gpu="H200",
    measured=True,
    read_bytes_per_s=4.3e12,
    write_bytes_per_s=4.0e12,
    copy_bytes_per_s=4.2e12,
    matmul_flops_per_s={"float32": 50e12},
)
REQUEST = TorchRequest(
    target="softmax", direction=Direction.FORWARD, case=CASE, mode=TorchMode.EAGER, samples=2, tf32=False
)
FLOOR = Floor(CEILINGS, empty_kernel_us=3.0, l2_bytes=60 << 20)


def window(idle_us: float, queued_us: float, wall_us: float, calls: int = 25) -> Window:
    def some(event_us: float) -> list[Clocks]:
        return [Clocks(event_us * (1 + 0.001 * (i % 5)), 5.0, wall_us, 400.0) for i in range(calls)]

    return Window(Samples(some(idle_us), some(queued_us)), NULL)


def baseline(mode: str, us: float) -> Baseline:
    times = tuple(us * (1 + 0.001 * (i % 5)) for i in range(25))
    return Baseline(mode=mode, idle_us=(us + 7,) * 25, queued_us=times)


def case(idle_us: float, queued_us: float, wall_us: float, floor_us: float = 50.0) -> TimedCase:
    both = Baselines(modes=(baseline("eager", 300.0), baseline("compile", 200.0)))
    return conclude_case(CASE, [[window(idle_us, queued_us, wall_us)]], both, TimeBounds(floor_us, 50.0), launches=1)


def test_an_honest_case_is_held_against_the_best_baseline() -> None:
    found = case(idle_us=108, queued_us=100, wall_us=148)
    assert found.doubts == ()
    assert found.timing.best == "compile" and found.timing.repeated
    assert found.timing.speedup is not None
    assert found.timing.speedup.value == pytest.approx(2.0)
    assert found.timing.claim is SpeedComparison.FASTER
    assert found.timing.roofline == pytest.approx(0.5, rel=0.01)


@pytest.mark.parametrize(
    ("idle_us", "queued_us", "wall_us", "floor_us", "reason"),
    [
        (108, 100, 300, 50, Reason.CLOCKS_DISAGREE),
        (160, 100, 200, 50, Reason.HIDDEN_WORK),
        (108, 100, 148, 120, Reason.BELOW_FLOOR),
        (18, 10, 58, 5, Reason.TOO_GOOD),
    ],
)
def test_doubts(idle_us: float, queued_us: float, wall_us: float, floor_us: float, reason: Reason) -> None:
    assert reason in [doubt.reason for doubt in case(idle_us, queued_us, wall_us, floor_us).doubts]


def test_a_floor_is_the_bytes_that_must_be_read() -> None:
    task = suite_program("softmax").task
    x = torch.empty(4096, 8192, device="meta")
    found = bound_times(task, Direction.FORWARD, CASE, Problem((x,), (x,), (x,)), FLOOR)
    read = x.numel() * 4
    spilled = read - (60 << 20)
    assert found.floor_us == pytest.approx((read + spilled) / 1.05 / 4.3e6, rel=1e-3)
    assert found.roofline_us == pytest.approx(2 * read / 4.2e6, rel=1e-3)


def test_the_roofline_of_a_product_is_its_arithmetic() -> None:
    task = suite_program("linear").task
    case = Case(name="c", group=Group.TIMING, axes={"rows": 4096, "inner": 4096, "cols": 4096}, dtype=Dtype.FLOAT32)
    out = torch.empty(4096, 4096, device="meta")
    found = bound_times(task, Direction.FORWARD, case, Problem((), (out,), (out,)), FLOOR)
    assert found.roofline_us == pytest.approx(2 * 4096**3 / 50e6, rel=1e-2)
    assert found.floor_us < found.roofline_us


def test_a_count_makes_a_roofline_and_no_floor() -> None:
    work = {Direction.FORWARD: {CASE.name: Work(flops=0, bytes=3 << 30)}}
    task = suite_program("softmax").task.model_copy(update={"cost": {}, "work": work})
    out = torch.empty(1 << 28, device="meta")
    found = bound_times(task, Direction.FORWARD, CASE, Problem((), (out,), (out,)), FLOOR)
    uncounted = bound_times(
        task.model_copy(update={"work": {}}), Direction.FORWARD, CASE, Problem((), (out,), (out,)), FLOOR
    )
    assert found.floor_us == uncounted.floor_us
    assert found.roofline_us == pytest.approx((2 << 30) / 4.2e6 + (1 << 30) / 4.3e6)


@pytest.mark.parametrize(("dtype", "rate"), [(Dtype.FLOAT32, 400e6), (Dtype.BFLOAT16, 800e6)])
def test_where_tf32_is_allowed_it_stands_for_float32_alone(dtype: Dtype, rate: float) -> None:
    task = suite_program("linear").task.model_copy(update={"precision": Precision(tf32=True)})
    case = Case(name="c", group=Group.TIMING, axes={"rows": 4096, "inner": 4096, "cols": 4096}, dtype=dtype)
    rates = {"float32": 50e12, "tf32": 400e12, "bfloat16": 800e12}
    floor = replace(FLOOR, ceilings=CEILINGS.model_copy(update={"matmul_flops_per_s": rates}))
    found = bound_times(task, Direction.FORWARD, case, Problem((), (), ()), floor)
    assert found.roofline_us == pytest.approx(2 * 4096**3 / rate, rel=1e-2)


def test_a_good_one_is_believed_when_a_fresh_process_repeats_it() -> None:
    both, good = Baselines(modes=(baseline("eager", 200.0),)), window(18, 10, 58)
    once = conclude_case(CASE, [[good]], both, TimeBounds(5.0, 5.0), launches=1)
    assert [doubt.reason for doubt in once.doubts] == [Reason.TOO_GOOD]
    assert conclude_case(CASE, [[good], [good]], both, TimeBounds(5.0, 5.0), launches=1).doubts == ()
    slower = window(29, 21, 69)
    assert conclude_case(CASE, [[good], [slower]], both, TimeBounds(5.0, 5.0), launches=1).doubts != ()


def test_heat_in_any_window_is_a_doubt() -> None:
    cool = window(idle_us=108, queued_us=100, wall_us=148)
    warm = replace(cool, slowed=("heat",))
    assert cool.is_sound and not warm.is_sound
    both = Baselines(modes=(baseline("eager", 200.0),))
    found = conclude_case(CASE, [[cool], [warm]], both, TimeBounds(50.0, 50.0), launches=1)
    assert found.reasons == {Reason.DISTURBED}


def test_an_honest_process_covers_for_no_other() -> None:
    both, honest, hiding = Baselines(modes=(baseline("eager", 200.0),)), window(108, 100, 148), window(160, 100, 200)
    assert conclude_case(CASE, [[honest], [honest]], both, TimeBounds(50.0, 50.0), launches=1).doubts == ()
    found = conclude_case(CASE, [[honest], [hiding]], both, TimeBounds(50.0, 50.0), launches=1)
    assert [doubt.reason for doubt in found.doubts] == [Reason.HIDDEN_WORK]


def test_each_process_counts_alike_and_a_side_is_what_its_processes_say_together() -> None:
    both = Baselines(modes=(baseline("eager", 205.0),))
    long, fast, slow = window(18, 10, 58, calls=61), window(17, 9, 57), window(30, 22, 70)
    found = conclude_case(CASE, [[long, fast, fast], [fast, slow, slow]], both, TimeBounds(5.0, 5.0), launches=1)
    each = len(fast.kept.queued)
    assert found.timing.time.samples == 6 * each and len(long.kept.queued) > each
    assert found.timing.kinds == {"usual": found.timing.time}
    assert found.timing.time.us == pytest.approx(9.5, abs=0.4)
    assert {doubt.reason for doubt in found.doubts} == {Reason.TOO_GOOD}, "the second side is not ten times as fast"
    assert (
        conclude_case(CASE, [[long, fast, slow], [fast, fast, slow]], both, TimeBounds(5.0, 5.0), launches=1).doubts
        == ()
    )


def test_what_is_said_of_a_case_is_said_of_its_slowest_kind_of_input() -> None:
    """The time, the interval, the claim and the roofline, however many calls the other kinds have."""
    plain = window(8.0, 5.0, 48.0)
    careful = [
        replace(one, kind="huge", event_us=one.event_us + 0.5)
        for one in (*plain.every.idle[:6], *plain.every.queued[:6])
    ]
    samples = Samples([*plain.every.idle, *careful[:6]], [*plain.every.queued, *careful[6:]])
    both = Baselines(modes=(baseline("eager", 5.3),))
    found = conclude_case(
        CASE, [[Window(samples, NULL, kinds=("usual", "huge"))]], both, TimeBounds(1.0, 1.0), launches=1
    ).timing
    assert found.time.us == pytest.approx(5.5, abs=0.02) and found.time == found.kinds["huge"]
    assert found.idle is not None and (found.idle.us, found.idle.samples) == (pytest.approx(8.5, abs=0.03), 6)
    assert found.kinds["usual"].us == pytest.approx(5.0, abs=0.02)
    assert found.speedup is not None and found.speedup.high < 1.0


def test_a_winner_must_win_in_each_window() -> None:
    both = Baselines(modes=(baseline("eager", 100.0),))
    sides = [[window(88, 80, 128)], [window(109, 101, 149)]]
    assert (
        conclude_case(CASE, sides[:1], both, TimeBounds(50.0, 50.0), launches=1).timing.claim is SpeedComparison.FASTER
    )
    assert (
        conclude_case(CASE, sides, both, TimeBounds(50.0, 50.0), launches=1).timing.claim
        is SpeedComparison.INCONCLUSIVE
    )


@pytest.mark.usefixtures("home")
def test_baselines_are_kept_for_what_they_depend_on() -> None:
    task = suite_program("softmax").task
    path = baseline_path("H200", "2.11", task, Direction.FORWARD, CASE)
    assert read_baselines(path) is None
    found = Baselines(modes=(baseline("eager", 3.0),), failed={"compile": "no"}, flush_us=400.0)
    store_baselines(path, found)
    assert read_baselines(path) == found
    others = [
        baseline_path("H100", "2.11", task, Direction.FORWARD, CASE),
        baseline_path("H200", "2.12", task, Direction.FORWARD, CASE),
        baseline_path("H200", "2.11", task, Direction.FORWARD, CASE, cold=False),
    ]
    assert path not in others


def test_two_windows_join_the_modes_that_ran_in_both() -> None:
    first = Baselines(modes=(baseline("eager", 3.0), baseline("compile", 2.0)))
    assert first.best.mode == "compile"
    found = first.merge(Baselines(modes=(baseline("eager", 5.0),), failed={"compile": "out of memory"}))
    assert [one.mode for one in found.modes] == ["eager"]
    assert len(found.modes[0].queued_us) == 50
    assert found.notes() == ("torch's compile gave no time: out of memory",)


def test_a_gpu_that_drifted_is_told_by_its_flush() -> None:
    found = Baselines(modes=(baseline("eager", 3.0),), flush_us=400.0)
    assert not found.has_drifted(410.0)
    assert found.has_drifted(430.0)
    assert not Baselines(modes=found.modes).has_drifted(430.0)  # a warm one has none


class Scripted:
    """A baseline process that answers from a table."""

    def __init__(self, **replies: TorchReply) -> None:
        self._replies = replies

    def time(self, request: TorchRequest) -> TorchReply:
        return self._replies[request.mode]


def test_a_mode_that_fails_is_said_and_not_forgotten() -> None:
    good = TorchReply(idle_us=(9.0, 9.0), queued_us=(5.0, 5.0), flush_us=(400.0,))
    host = Scripted(eager=good, compile=TorchReply(error="no module"))
    found = measure_baselines(host, REQUEST, ["eager", "compile"])
    assert [one.mode for one in found.modes] == ["eager"]
    assert (found.failed, found.flush_us) == ({"compile": "no module"}, 400.0)
    with pytest.raises(HarnessError, match="No mode of torch runs softmax"):
        measure_baselines(Scripted(compile=TorchReply(error="no")), REQUEST, ["compile"])


def test_the_baselines_of_somebody_elses_task_leave_nothing_behind(home: Path) -> None:
    foreign = home / "problem.py"
    foreign.write_text("class Model: ...")
    assert baseline_policy("softmax").write != ()
    assert baseline_policy(f"{foreign}:Model").write == ()
    assert baseline_policy(f"{foreign}:Model").devices


class Mortal:
    """A baseline process that answers a few times and then dies, or loses the GPU."""

    def __init__(self, answers: int, loses: bool) -> None:
        self.answers, self.loses, self.ended = answers, loses, False
        self.is_alive, self.forgot, self.within_s = True, 0, 0.0

    def release_memory(self, within_s: float = RELEASE_S) -> None:
        self.forgot += 1
        self.within_s = within_s

    def time(self, request: TorchRequest) -> TorchReply:
        if not self.answers and self.loses:
            return TorchReply(error="device-side assert triggered", lost=True)
        if not self.answers:
            raise HarnessError("The baseline process was killed.")
        self.answers -= 1
        return TorchReply(queued_us=(1.0,))


@pytest.mark.usefixtures("home")
def test_a_baseline_process_lets_go_and_answers_again() -> None:
    """The real one; without a GPU its answer is why there is no time."""
    with BaselineProcess("softmax") as host:
        host.release_memory()
        answer = host.time(REQUEST.model_copy(update={"mode": TorchMode.EAGER}))
        assert answer.error or answer.queued_us
        assert host.is_alive


def test_the_resident_process_of_the_suite_rests_when_a_candidate_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Mortal(2, False)
    resident = ResidentHost(lambda: nullcontext(one))
    monkeypatch.setattr("warpsmith.evaluation.timing.baseline_process._suite_host", lambda _uuid: resident)
    with ExitStack() as until:
        assert open_baseline_host("softmax", until).time(REQUEST).queued_us
        assert one.forgot == 0
    assert one.forgot == 1


def test_whoever_begins_it_can_wait_until_it_has_loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    one = Mortal(2, False)
    monkeypatch.setattr("warpsmith.evaluation.timing.baseline_process._suite_host", lambda _uuid: resident)
    resident = ResidentHost(lambda: nullcontext(one))
    loaded = preload_torch("softmax")
    assert loaded is not None and one.forgot == 0
    loaded()
    assert (one.forgot, one.within_s) == (1, LOAD_S), "as long as torch may take, since it answers only then"
    foreign = tmp_path / "problem.py"
    foreign.write_text("class Model: ...")
    assert preload_torch(f"{foreign}:Model") is None


@pytest.mark.parametrize("error", [HarnessError, KeyboardInterrupt])
def test_one_that_does_not_let_go_is_ended(error: type[BaseException]) -> None:
    begun: list[Mortal] = []

    @contextmanager
    def start() -> Iterator[Mortal]:
        begun.append(Mortal(2, False))
        yield begun[-1]
        begun[-1].ended = True

    def stuck(within_s: float = RELEASE_S) -> None:
        raise error("no answer")

    resident = ResidentHost(start)
    resident.time(REQUEST)
    monkey = begun[0]
    monkey.release_memory = stuck  # type: ignore[method-assign]
    with nullcontext() if error is HarnessError else pytest.raises(error):
        resident.release_memory()
    assert monkey.ended


def test_one_that_may_not_live_through_another_question_is_begun_anew() -> None:
    """Its end in the middle of one would be a fault of ours in a candidate's record."""
    begun: list[Mortal] = []

    @contextmanager
    def start() -> Iterator[Mortal]:
        begun.append(Mortal(2, False))
        yield begun[-1]
        begun[-1].ended = True

    now_s = 0.0
    resident = ResidentHost(start, lambda: now_s)
    assert resident.time(REQUEST).queued_us
    now_s = OLD_S
    assert resident.time(REQUEST).queued_us and resident.start()
    assert [one.ended for one in begun] == [True, False]


@pytest.mark.parametrize("loses", [False, True])
def test_the_resident_process_is_begun_once_and_again_after_its_end(loses: bool) -> None:
    begun: list[Mortal] = []

    @contextmanager
    def start() -> Iterator[Mortal]:
        one = Mortal(2, loses)
        begun.append(one)
        yield one
        one.ended = True

    resident, asked = ResidentHost(start), REQUEST
    resident.start()
    assert len(begun) == 1, "before anything is asked"
    assert [resident.time(asked).queued_us for _ in range(2)] == [(1.0,)] * 2
    assert len(begun) == 1
    with nullcontext() if loses else pytest.raises(HarnessError):
        assert resident.time(asked).lost
    assert begun[0].ended
    assert resident.time(asked).queued_us and len(begun) == 2
    resident.release_memory()
    assert begun[1].forgot == 1
    begun[1].is_alive = False
    assert resident.time(asked).queued_us and len(begun) == 3, "one that ended by itself costs nobody anything"
    resident.close()
    assert begun[1].ended and begun[2].ended

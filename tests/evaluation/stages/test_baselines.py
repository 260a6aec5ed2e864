"""Baselines of many cases before anybody asks: what is compiled beside others, what is measured, what is left."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from warpsmith.base import HarnessError, Home, UsageError
from warpsmith.evaluation.baselines import BaselineScope, Wanted, measure_each, multiplies, preparable, prepare, wanted
from warpsmith.evaluation.timing.baseline_process import BaselineHost, LongLivedHost, ResidentHost
from warpsmith.evaluation.timing.baseline_server import TorchReply, TorchRequest
from warpsmith.records import MODES, Direction, Group
from warpsmith.tasks.host import open_task
from warpsmith.tasks.suite import suite

PLACE = BaselineScope("cuda:H200", "2.11", ("eager", "compile"))
KERNELBENCH = Path(__file__).parents[2] / "foreign" / "kernelbench"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Baselines and leases of this test."""
    found = SimpleNamespace(locate=lambda: Home(tmp_path / "data", tmp_path / "cache"))
    for user in ("evaluation.timing.baselines", "machines.hardware.leases"):
        monkeypatch.setattr(f"warpsmith.{user}.Home", found)
    return tmp_path


@dataclass
class Torch:
    """Baseline processes that remember what they were asked, and may die at a case."""

    deadly: str = ""
    begun: int = 0
    asked: list[TorchRequest] = field(default_factory=list)

    def time(self, request: TorchRequest) -> TorchReply:
        self.asked.append(request)
        if request.case.name == self.deadly:
            raise HarnessError("The baseline process was killed.")
        if request.mode == "compile" and request.case.name == "mnist":
            return TorchReply(error="no compiler")
        times = (5.0 if request.mode == "eager" else 4.0,) * request.samples
        return TorchReply(idle_us=times, queued_us=times)

    @property
    def is_alive(self) -> bool:
        return True

    def release_memory(self, within_s: float = 30.0) -> None: ...

    def start(self) -> AbstractContextManager[LongLivedHost]:
        return self._open()

    @contextmanager
    def _open(self) -> Iterator[LongLivedHost]:
        self.begun += 1
        yield self

    def host_for(self, _target: str, until: ExitStack) -> BaselineHost:
        resident = ResidentHost(self.start)
        until.callback(resident.close)
        return resident


def flush_us() -> float:
    return 400.0


def test_the_timing_cases_of_tasks_both_ways() -> None:
    found = wanted(["softmax"])
    cases = open_task("softmax").describe().group(Group.TIMING)
    assert [(one.direction, one.case) for one in found] == [(way, case) for way in Direction for case in cases]
    assert {one.direction for one in wanted(["softmax"], Direction.BACKWARD)} == {Direction.BACKWARD}
    assert {one.task.name for one in wanted([])} == {task.name for task in suite()}


def test_a_direction_that_a_task_lacks(tmp_path: Path) -> None:
    problem = tmp_path / "1_argmax.py"
    problem.write_text(
        "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x): return x.argmax(-1)\n"
        "def get_inputs(): return [torch.rand(4, 4)]\ndef get_init_inputs(): return []\n"
    )
    with pytest.raises(UsageError, match="has no backward direction; it has forward"):
        wanted([str(problem)], Direction.BACKWARD)
    (only,) = wanted([str(problem)])
    assert only.direction is Direction.FORWARD


def test_products_and_convolutions_are_told_from_norms_and_gates() -> None:
    assert {task.name for task in suite() if multiplies(task)} == {
        "attention",
        "conv_relu_pool",
        "linear",
        "linear_relu",
        "llama_ffw",
        "resnet_block",
        "unet_conv2d",
        "unet_linear",
    }


def test_a_choice_by_timing_is_not_compiled_beside_others() -> None:
    softmax, linear = wanted(["softmax"])[0], wanted(["linear"])[0]
    assert preparable(softmax, MODES) == ("compile", "max-autotune")
    assert preparable(linear, MODES) == ("compile",)
    assert preparable(linear, ("eager", "compile-graph")) == ("compile",)
    assert preparable(softmax, ("eager", "eager-graph")) == ()
    problem = sorted(KERNELBENCH.glob("*.py"))[0]
    foreign = Wanted(str(problem), softmax.task, Direction.FORWARD, softmax.case)
    assert preparable(foreign, MODES) == ()  # what torch compiles for it is not kept


def test_preparing_times_nothing_and_survives_a_death() -> None:
    every = wanted(["softmax"], Direction.FORWARD)
    torch = Torch(deadly=every[1].case.name)
    found = list(prepare(every, MODES, torch.start, jobs=2))
    assert {one.one.name for one in found} == {one.name for one in every}
    assert {request.samples for request in torch.asked} == {0}
    assert len(torch.asked) == 2 * len(every)
    failed = {one.one.case.name: dict(one.failed) for one in found if one.failed}
    died = "The baseline process was killed."
    assert failed == {"mnist": {"compile": "no compiler"}, torch.deadly: {"compile": died, "max-autotune": died}}
    assert torch.begun >= 3  # two, and again after each death


def test_a_process_that_cannot_begin_is_said_for_each_case() -> None:
    def start() -> AbstractContextManager[BaselineHost]:
        raise HarnessError("no memory")

    every = wanted(["softmax"], Direction.FORWARD)
    found = list(prepare(every, MODES, start, jobs=99))
    assert len(found) == len(every)
    assert all(set(one.failed) == {"compile", "max-autotune"} for one in found)
    assert list(prepare([], MODES, start, jobs=2)) == []


def test_what_is_measured_is_found_by_an_evaluation_and_left_the_next_time() -> None:
    every = wanted(["softmax", "swiglu"], Direction.FORWARD)
    torch = Torch()
    rows = list(measure_each(every, PLACE, 400.0, flush_us, torch.host_for))
    assert torch.begun == 2  # one for each task
    assert [(row.task, row.case) for row in rows] == [(one.task.name, one.case.name) for one in every]
    assert not any(row.left or row.error for row in rows)
    kept = PLACE.kept(every[1], 400.0)
    assert kept is not None and kept == rows[1].baselines
    assert (kept.best.mode, kept.flush_us) == ("compile", 400.0)
    assert rows[0].baselines is not None and dict(rows[0].baselines.failed) == {"compile": "no compiler"}

    later = Torch()
    assert all(row.left for row in measure_each(every, PLACE, 405.0, flush_us, later.host_for))
    assert (later.begun, later.asked) == (0, [])
    drifted = list(measure_each(every, PLACE, 440.0, flush_us, Torch().host_for))
    again = list(measure_each(every, PLACE, None, flush_us, Torch().host_for))
    assert not any(row.left for row in (*drifted, *again))


def test_modes_that_failed_before_are_said_and_the_next_case_is_measured() -> None:
    every = wanted(["softmax"], Direction.FORWARD)[:2]
    list(measure_each(every, PLACE, 400.0, flush_us, Torch().host_for))
    compiled = replace(PLACE, modes=("compile",))
    failed, fine = measure_each(every, compiled, 400.0, flush_us, Torch().host_for)
    assert "No mode of torch runs" in failed.error and "no compiler" in failed.error
    assert fine.baselines is not None and fine.baselines.best.mode == "compile"


def test_a_death_costs_one_case_and_an_interrupt_nothing_that_is_done() -> None:
    every = wanted(["softmax"], Direction.FORWARD)
    rows = measure_each(every, PLACE, 400.0, flush_us, Torch(deadly=every[1].case.name).host_for)
    first, second, third = next(rows), next(rows), next(rows)
    assert (first.error, second.error, third.error) == ("", "The baseline process was killed.", "")
    assert second.baselines is None
    rows.close()  # type: ignore[attr-defined]
    assert [PLACE.kept(one, 400.0) is not None for one in every] == [True, False, True] + [False] * (len(every) - 3)

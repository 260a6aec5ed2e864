"""Which of torch's modes are measured for a claim, and what is said of the others."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from shutil import copytree
from typing import cast

import pytest

from warpsmith.base import HarnessError
from warpsmith.evaluation.timing.baseline_process import baseline_policy
from warpsmith.evaluation.timing.baseline_server import TorchReply, TorchRequest
from warpsmith.evaluation.timing.baselines import (
    Baseline,
    Baselines,
    baseline_path,
    baseline_request,
    read_baselines,
    remeasure_near_best,
    store_baselines,
)
from warpsmith.evaluation.timing.empty_kernel import EmptyKernels
from warpsmith.evaluation.timing.session import TimingSession
from warpsmith.evaluation.timing.stage import Tier, Timer
from warpsmith.evaluation.timing.subject import TimingSubject
from warpsmith.machines.hardware import Gpu
from warpsmith.records import MODES, Case, Direction, Dtype, Group, Language
from warpsmith.tasks.host import open_task
from warpsmith.tasks.suite import suite_folder

CASE = Case(name="c", group=Group.TIMING, axes={"rows": 4096, "cols": 8192}, dtype=Dtype.FLOAT32)
THEN = {"eager": 30.0, "compile": 10.0, "max-autotune": 10.5, "eager-graph": 25.0, "compile-graph": 11.4}


def baselines(times_us: dict[str, float], failed: tuple[str, ...] = ()) -> Baselines:
    modes = tuple(Baseline(mode=mode, idle_us=(us,), queued_us=(us,)) for mode, us in times_us.items())
    return Baselines(modes=modes, failed=dict.fromkeys(failed, "no such operator"), flush_us=400.0)


@dataclass
class Torch:
    """A baseline process with these times; a mode without one fails."""

    times_us: dict[str, float]
    asked: Counter[str] = field(default_factory=Counter)

    def time(self, request: TorchRequest) -> TorchReply:
        self.asked[request.mode] += 1
        us = self.times_us.get(request.mode)
        return (
            TorchReply(error="no memory")
            if us is None
            else TorchReply(idle_us=(us,), queued_us=(us,), flush_us=(400.0,))
        )


def question() -> TorchRequest:
    return baseline_request("softmax", open_task("softmax").describe(), Direction.FORWARD, CASE)


def test_a_task_of_a_path_is_asked_for_by_a_path_that_is_the_same_everywhere(work_folder: Path) -> None:
    """Torch's process works in a folder of its own."""
    copytree(suite_folder("softmax"), work_folder / "mine")
    found = baseline_request("./mine", open_task("./mine").describe(), Direction.FORWARD, CASE)
    assert found.target == str(work_folder / "mine")
    assert question().target == "softmax"


@pytest.mark.usefixtures("home")
def test_what_is_kept_is_of_one_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    paths = set[Path]()
    for driver in ("570.1", "580.2"):
        here = (Gpu("H200", driver, 141 << 10, "9.0"),)
        monkeypatch.setattr("warpsmith.evaluation.timing.baselines.gpus", lambda here=here: here)
        paths.add(baseline_path("cuda:H200", "2", open_task("softmax").describe(), Direction.FORWARD, CASE))
    assert len(paths) == 2


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b'{"modes": 1}'])
def test_a_damaged_file_is_as_good_as_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "b.json"
    path.write_bytes(content)
    assert read_baselines(path) is None
    store_baselines(path, baselines(THEN))
    assert read_baselines(path) == baselines(THEN)


def test_only_what_came_near_the_best_is_measured_again() -> None:
    torch = Torch({"compile": 10.2, "max-autotune": 10.1, "compile-graph": 11.0})
    found = remeasure_near_best(torch, question(), baselines(THEN))
    assert torch.asked == {"compile": 2, "max-autotune": 2, "compile-graph": 2}
    assert found.best.mode == "max-autotune"
    assert found.best.queued_us == (10.1, 10.1)
    assert found.kept == ("eager", "eager-graph")
    assert found.notes() == (
        "not measured again, since more than 15% slower than the best when all were measured: "
        "torch's eager, eager-graph",
    )
    assert {one.mode: one.us for one in found.modes}["eager"] == THEN["eager"]


def test_when_another_mode_is_the_best_after_all_every_mode_is_measured() -> None:
    now = dict.fromkeys(THEN, 28.0) | {"eager-graph": 27.0}
    torch = Torch(now)
    found = remeasure_near_best(torch, question(), baselines(THEN))
    assert (found.best.mode, found.kept, found.notes()) == ("eager-graph", (), ())
    assert set(torch.asked) == set(MODES)
    assert len(found.best.queued_us) == 2


def test_a_mode_that_failed_then_has_another_chance() -> None:
    torch = Torch({"compile": 10.0, "max-autotune": 8.0})
    found = remeasure_near_best(
        torch, question(), baselines({"compile": 10.0, "eager": 30.0}, failed=("max-autotune",))
    )
    assert (found.best.mode, found.kept, dict(found.failed)) == ("max-autotune", ("eager",), {})


def test_modes_that_fail_now_leave_no_time_of_then_as_the_best() -> None:
    torch = Torch({"eager": 31.0})
    found = remeasure_near_best(torch, question(), baselines({"compile": 10.0, "eager": 30.0}))
    assert (found.best.mode, found.best.us, found.kept) == ("eager", 31.0, ())
    assert found.notes() == ("torch's compile gave no time: no memory",)
    with pytest.raises(HarnessError, match="No mode of torch runs softmax"):
        remeasure_near_best(Torch({}), question(), baselines(THEN))


@dataclass
class Beside:
    """Of a timing_session, the baselines."""

    torch: Torch


def timed(tier: Tier, torch: Torch, flush_us: float) -> Baselines:
    opened = open_task("softmax")
    subject = TimingSubject(
        opened, "softmax", opened.describe(), Direction.FORWARD, Path("x.so"), language=Language.TORCH, launches=1
    )
    timer = Timer(cast(EmptyKernels, None), "H200", "2.11", tier)
    return timer._find_baselines(subject, CASE, cast(TimingSession, Beside(torch)), flush_us)


@pytest.mark.parametrize(
    ("tier", "kept", "flush_us", "calls"),
    [
        ("search", False, 400.0, dict.fromkeys(MODES, 1)),
        ("search", True, 400.0, {}),
        ("search", True, 440.0, dict.fromkeys(MODES, 1)),
        ("claim", False, 400.0, {**dict.fromkeys(MODES, 1), "compile": 3, "max-autotune": 3, "compile-graph": 3}),
        ("claim", True, 400.0, {"compile": 2, "max-autotune": 2, "compile-graph": 2}),
        ("claim", True, 440.0, {**dict.fromkeys(MODES, 1), "compile": 3, "max-autotune": 3, "compile-graph": 3}),
    ],
)
@pytest.mark.usefixtures("home")
def test_kept_baselines_save_what_they_can(
    tier: Tier,
    kept: bool,
    flush_us: float,
    calls: dict[str, int],
) -> None:
    path = baseline_path("H200", "2.11", open_task("softmax").describe(), Direction.FORWARD, CASE)
    if kept:
        store_baselines(path, baselines(THEN))
    torch = Torch(THEN)
    found = timed(tier, torch, flush_us)
    assert torch.asked == calls
    assert {one.mode for one in found.modes} == set(MODES)
    after = read_baselines(path)
    assert after is not None and after.kept == ()  # what is kept was measured in one go
    assert after.flush_us == (400.0 if flush_us == 400.0 else 440.0)


@pytest.mark.usefixtures("home")
def test_only_the_modes_that_nobody_tried_are_measured() -> None:
    path = baseline_path("H200", "2.11", open_task("softmax").describe(), Direction.FORWARD, CASE)
    store_baselines(path, baselines({"eager": 30.0}, failed=("max-autotune",)))
    torch = Torch(THEN)
    found = timed("search", torch, 404.0)
    assert torch.asked == {"compile": 1, "eager-graph": 1, "compile-graph": 1}
    assert {one.mode for one in found.modes} == set(MODES) - {"max-autotune"}
    assert set(found.failed) == {"max-autotune"}
    after = read_baselines(path)
    assert after is not None and (after.flush_us, after.kept) == (400.0, ())


def test_a_mode_that_had_no_memory_left_is_tried_again() -> None:
    failed = {"eager": "CUDA out of memory. Tried to allocate 2 GiB.", "compile": "no such operator"}
    kept = Baselines(modes=(), failed=failed)
    assert kept.missing_modes(("eager", "compile")) == ("eager",)


def test_of_the_kept_modes_only_those_count_that_were_asked_for() -> None:
    few = baselines(THEN, failed=("max-autotune",)).restricted_to(("eager", "eager-graph"))
    assert ({one.mode for one in few.modes}, dict(few.failed)) == ({"eager", "eager-graph"}, {})
    assert few.missing_modes(("eager", "compile")) == ("compile",)


def test_the_compilers_of_a_baseline_process_can_be_few() -> None:
    assert baseline_policy("softmax", compilers=2).env["TORCHINDUCTOR_COMPILE_THREADS"] == "2"
    assert "TORCHINDUCTOR_COMPILE_THREADS" not in baseline_policy("softmax").env

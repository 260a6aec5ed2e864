"""The runner: stages in order until one objects; our own faults stay in the record they happened in."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import pytest

from warpsmith.base import HarnessError, MachineError, UsageError
from warpsmith.evaluation import Choices, Defence, evaluate, settled
from warpsmith.evaluation import choices as choices_module
from warpsmith.evaluation.environment import environment
from warpsmith.evaluation.run import rows_for, run
from warpsmith.evaluation.stages.desk import Desk
from warpsmith.evaluation.stages.table import STAGES, Row
from warpsmith.evaluation.timing.sitting import Sitting
from warpsmith.machines.hardware.lease import Need, lease
from warpsmith.records import (
    Candidate,
    Confined,
    Direction,
    Environment,
    Group,
    Language,
    Reason,
    Record,
    StageResult,
    Verdict,
)
from warpsmith.tasks.host.find import open_task

FLOOR = Confined(achieved=("landlock", "seccomp", "uid"))
OPENED = open_task("softmax")
TASK = OPENED.describe()
CANDIDATE = Candidate(task="softmax", direction=Direction.FORWARD, source="x")


def desk(**chosen: object) -> Desk:
    return Desk("softmax", OPENED, TASK, CANDIDATE, Choices(device="vgpu", **chosen), seed=1)  # type: ignore[arg-type]


def empty(confined: Confined = FLOOR) -> Record:
    return Record(
        candidate=CANDIDATE,
        task_version=TASK.version,
        environment=Environment(device="d", hardware="h", confined=confined),
    )


def row(name: str, verdict: Verdict = Verdict.PASS, reason: Reason | None = None) -> Row:
    result = StageResult(stage=name, verdict=verdict, reason=reason, detail="a sentence")
    return Row(name, lambda desk: lambda record: result)


def raising(error: Exception) -> Row:
    def stage(record: Record) -> StageResult:
        raise error

    return Row("check", lambda desk: stage)


def stages(record: Record) -> list[str]:
    return [result.stage for result in record.results]


def test_stages_run_in_order_and_a_skip_does_not_end_the_way() -> None:
    found = run(empty(), desk(), [row("compile"), row("virtual", Verdict.SKIP), row("check")])
    assert stages(found) == ["compile", "virtual", "check"]
    assert found.concluded is Verdict.PASS


@pytest.mark.parametrize("verdict", [Verdict.FAIL, Verdict.QUARANTINE, Verdict.FAULT])
def test_the_first_objection_ends_the_way(verdict: Verdict) -> None:
    found = run(empty(), desk(), [row("compile"), row("check", verdict, Reason.WRONG_VALUE), row("timing")])
    assert stages(found) == ["compile", "check"]
    assert found.concluded is verdict


def test_a_check_that_was_skipped_is_no_pass() -> None:
    found = run(empty(), desk(), [row("compile"), row("check", Verdict.SKIP), row("timing", Verdict.SKIP)])
    assert found.verdict is Verdict.PASS and found.concluded is Verdict.SKIP


@pytest.mark.parametrize("error", [HarnessError("the executor"), OSError("disk full"), ZeroDivisionError("ours")])
def test_our_fault_is_a_fault_of_this_record_only(error: Exception) -> None:
    found = run(empty(), desk(), [row("compile"), raising(error), row("timing")])
    assert found.results[-1].reason is Reason.HARNESS and str(error) in found.results[-1].detail
    assert found.concluded is Verdict.FAULT and stages(found) == ["compile", "check"]


def test_what_the_user_gave_is_told_to_the_user() -> None:
    with pytest.raises(UsageError, match="task"):
        run(empty(), desk(), [raising(UsageError("the task is broken"))])


def test_below_the_floor_nothing_runs_unless_trusted() -> None:
    poor = Confined(achieved=("uid",), missing=("seccomp: refused",))
    refused = run(empty(poor), desk(), [row("compile")])
    assert refused.results[0].reason is Reason.UNCONFINED and "seccomp: refused" in refused.results[0].detail
    assert stages(run(empty(poor), desk(trust=True), [row("compile")])) == ["compile"]


def test_a_stage_may_have_the_gpu_for_itself(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPSMITH_HOME", str(tmp_path))
    one = row("timing")
    found = run(empty(), desk(), [Row(one.name, one.make, Need.ALONE)])
    assert stages(found) == ["timing"]


def test_stages_that_need_the_gpu_alike_have_it_in_one_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPSMITH_HOME", str(tmp_path))
    leases: list[Need] = []

    @contextmanager
    def noted(need: Need) -> Iterator[None]:
        leases.append(need)
        yield

    monkeypatch.setattr("warpsmith.evaluation.run.lease", noted)
    shared = [Row(one.name, one.make, Need.SHARED) for one in (row("check"), row("sanitizer"), row("record"))]
    last = row("timing")
    found = run(empty(), desk(), [row("compile"), *shared, Row(last.name, last.make, Need.ALONE)])
    assert leases == [Need.NONE, Need.SHARED, Need.ALONE]
    assert stages(found) == ["compile", "check", "sanitizer", "record", "timing"]


def test_nobody_has_the_gpu_while_torch_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPSMITH_HOME", str(tmp_path))
    said: list[str] = []

    @contextmanager
    def noted(need: Need) -> Iterator[None]:
        said.append(f"has {need}")
        yield
        said.append("has it no more")

    monkeypatch.setattr("warpsmith.evaluation.run.lease", noted)
    one, checked, timed = desk(), row("check"), row("timing")
    one.wait_for_torch = lambda: said.append("waits")
    run(empty(), one, [Row(checked.name, checked.make, Need.SHARED), Row(timed.name, timed.make, Need.ALONE)])
    assert said == ["has shared", "has it no more", "waits", "has alone", "has it no more"]


@pytest.mark.parametrize("verdict", [Verdict.PASS, Verdict.FAIL])
def test_what_was_begun_for_a_clock_that_never_ran_is_ended(
    verdict: Verdict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARPSMITH_HOME", str(tmp_path))
    ended: list[str] = []

    class Begun:
        def close(self) -> None:
            ended.append("ended")

    one, reason = desk(), None if verdict is Verdict.PASS else Reason.WRONG_VALUE
    one.sitting = cast(Sitting, Begun())
    assert run(empty(), one, [row("check", verdict, reason)]).verdict is verdict
    assert ended == ["ended"] and one.sitting is None


def test_at_an_interrupt_nobody_waits_for_another_s_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPSMITH_HOME", str(tmp_path))
    ended, one = list[str](), desk()

    class Begun:
        def close(self) -> None:
            ended.append("ended")

    def interrupted(_record: Record) -> StageResult:
        raise KeyboardInterrupt

    one.sitting = cast(Sitting, Begun())
    with lease(Need.ALONE), pytest.raises(KeyboardInterrupt):
        run(empty(), one, [Row("check", lambda desk: interrupted)])
    assert ended == ["ended"]


def test_a_gpu_that_cannot_be_had_is_a_fault_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_need: Need) -> AbstractContextManager[None]:
        raise OSError("no such folder")

    monkeypatch.setattr("warpsmith.evaluation.run.lease", refused)
    found = run(empty(), desk(), [row("check"), row("timing")])
    assert stages(found) == ["check"] and "no such folder" in found.results[0].detail
    assert found.concluded is Verdict.FAULT


def test_the_devices_differ_by_their_rows() -> None:
    assert [row.name for row in STAGES["vgpu"]] == ["static", "compile", "check", "timing"]
    before = ["static", "compile", "virtual", "check", "sanitizer", "record"]
    assert [row.name for row in STAGES["cuda"]] == [*before, "timing"]
    needs = {row.name: row.gpu for row in STAGES["cuda"]}
    assert needs["timing"] is Need.ALONE and needs["check"] is Need.SHARED and needs["virtual"] is Need.NONE


def test_auto_is_cuda_where_there_is_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    there: Callable[[], tuple[object, ...]] = lambda: (object(),)  # noqa: E731
    monkeypatch.setattr(choices_module, "gpus", there)
    assert settled("auto") == "cuda" and settled("vgpu") == "vgpu"
    monkeypatch.setattr(choices_module, "gpus", tuple)
    assert settled("auto") == "vgpu"
    with pytest.raises(MachineError, match="--device vgpu"):
        settled("cuda")
    with pytest.raises(UsageError, match="does not exist"):
        settled("tpu")


def test_choices_are_part_of_the_record_s_options() -> None:
    found = Choices(device="vgpu", cases=(Group.DEV,), without=frozenset(Defence)).options(5)
    assert found.seeds == (5,) and found.cases == ("dev",)
    assert found.extra == {"gpu": "H200", "without": "link,static,virtual"}


def test_a_plan_covers_the_chosen_group_or_the_usual_ones() -> None:
    usual = {step.trial.case.group for step in desk().steps("vgpu")}
    assert usual == {Group.SMOKE, Group.HELDOUT}
    chosen = {step.trial.case.group for step in desk(cases=(Group.DEV,)).steps("vgpu")}
    assert chosen == {Group.DEV}


def test_a_direction_that_a_task_lacks_is_refused(tmp_path: object) -> None:
    with pytest.raises(UsageError, match="sideways"):
        evaluate("softmax", "x", choices=Choices(device="sideways"))
    assert desk().plain is False and CANDIDATE.language is Language.TORCH


def test_the_stages_end_where_they_are_told_to_and_leave_out_what_is_left_out() -> None:
    names = [row.name for row in rows_for(Choices(device="cuda", until="check", without=frozenset({Defence.VIRTUAL})))]
    assert names[-1] == "check" and "compile" in names and "virtual" not in names
    assert rows_for(Choices(device="vgpu")) == STAGES["vgpu"]
    with pytest.raises(UsageError, match="profile does not exist on vgpu; it has"):
        rows_for(Choices(device="vgpu", until="profile"))


def test_what_is_not_run_is_said_in_the_options() -> None:
    extra = Choices(device="cuda", until="check", without=frozenset({Defence.VIRTUAL})).options(1).extra
    assert extra["until"] == "check" and extra["without"] == "virtual"


def test_a_sign_in_the_text_is_told_and_decides_nothing() -> None:
    static = next(row for row in STAGES["vgpu"] if row.name == "static")
    candidate = CANDIDATE.model_copy(update={"source": "std::thread t(f);"})
    result = static.make(desk())(empty().model_copy(update={"candidate": candidate}))
    assert result.verdict is Verdict.PASS and result.detail == "signs: thread"
    left = rows_for(Choices(device="vgpu", without=frozenset({Defence.STATIC})))
    assert "static" not in [row.name for row in left]


def test_a_record_says_when_it_was_made() -> None:
    when = environment("vgpu", "H200").when
    assert when is not None and abs(datetime.now(UTC) - when) < timedelta(minutes=1)

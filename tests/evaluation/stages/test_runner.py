"""The runner: stages in order until one objects; our own faults stay in the record they happened in."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from warpsmith.base import DeviceMemoryError, HarnessError, MachineError, UsageError
from warpsmith.evaluation import EvaluationConfig, evaluate, settle_device
from warpsmith.evaluation.environment import environment
from warpsmith.evaluation.run import run, stages_for
from warpsmith.evaluation.stages.common import find_signs
from warpsmith.evaluation.stages.evaluation import Evaluation, Stage, StageOutcome
from warpsmith.evaluation.stages.table import STAGES
from warpsmith.evaluation.stages.virtual import plan_calls
from warpsmith.machines.hardware import Gpu
from warpsmith.machines.hardware.leases import Need
from warpsmith.machines.virtual.machine import VirtualMachine
from warpsmith.records import (
    Candidate,
    Confined,
    Defence,
    Direction,
    Environment,
    Group,
    Reason,
    Record,
    StageResult,
    Verdict,
)
from warpsmith.tasks.host import open_task

FLOOR = Confined(achieved=("landlock", "seccomp", "uid"))
OPENED = open_task("softmax")
TASK = OPENED.describe()
CANDIDATE = Candidate(task="softmax", direction=Direction.FORWARD, source="x")


MACHINE = VirtualMachine.of("H200")


def evaluation(confined: Confined = FLOOR, **chosen: Any) -> Evaluation:
    record = Record(
        candidate=CANDIDATE,
        task_version=TASK.version,
        environment=Environment(device="d", hardware="h", confined=confined),
    )
    config = EvaluationConfig(device="vgpu", **chosen)
    return Evaluation("softmax", OPENED, TASK, CANDIDATE, config, MACHINE, 1, record)


@dataclass(frozen=True)
class LeasedMachine(VirtualMachine):
    """A machine that notes its leases."""

    notes: list[str] = field(default_factory=list, compare=False)

    @contextmanager
    def lease(self, need: Need) -> Iterator[None]:
        self.notes.append(f"has {need}")
        yield
        self.notes.append("has it no more")


def stage(
    name: str,
    verdict: Verdict = Verdict.PASS,
    reason: Reason | None = None,
    gpu: Need = Need.NONE,
    products: tuple[object, ...] = (),
) -> Stage:
    result = StageResult(stage=name, verdict=verdict, reason=reason, detail="a sentence")
    return Stage(name, lambda _evaluation: StageOutcome(result, products), gpu=gpu)


def raising(error: BaseException, name: str = "check") -> Stage:
    def fail(_evaluation: Evaluation) -> StageOutcome:
        raise error

    return Stage(name, fail)


def stages(record: Record) -> list[str]:
    return [result.stage for result in record.results]


def test_stages_run_in_order_and_a_skip_does_not_end_the_way() -> None:
    found = run(evaluation(), [stage("compile"), stage("virtual", Verdict.SKIP), stage("check")])
    assert stages(found) == ["compile", "virtual", "check"]
    assert found.concluded is Verdict.PASS


@pytest.mark.parametrize("verdict", [Verdict.FAIL, Verdict.QUARANTINE, Verdict.FAULT])
def test_the_first_objection_ends_the_way(verdict: Verdict) -> None:
    found = run(evaluation(), [stage("compile"), stage("check", verdict, Reason.WRONG_VALUE), stage("timing")])
    assert stages(found) == ["compile", "check"]
    assert found.concluded is verdict


def test_a_check_that_was_skipped_is_no_pass() -> None:
    found = run(evaluation(), [stage("compile"), stage("check", Verdict.SKIP), stage("timing", Verdict.SKIP)])
    assert found.verdict is Verdict.PASS and found.concluded is Verdict.SKIP


@pytest.mark.parametrize("error", [HarnessError("the executor"), OSError("disk full"), ZeroDivisionError("ours")])
def test_our_fault_is_a_fault_of_this_record_only(error: Exception) -> None:
    found = run(evaluation(), [stage("compile"), raising(error), stage("timing")])
    assert found.results[-1].reason is Reason.HARNESS and str(error) in found.results[-1].detail
    assert found.concluded is Verdict.FAULT and stages(found) == ["compile", "check"]


@dataclass
class Starved:
    """A stage that the GPU has no memory for, at first."""

    errors: list[Exception]

    def __call__(self, _evaluation: Evaluation) -> StageOutcome:
        if self.errors:
            raise self.errors.pop(0)
        return StageOutcome(StageResult(stage="check", verdict=Verdict.PASS))


NO_MEMORY = [DeviceMemoryError("cuMemCreate"), RuntimeError("CUDA out of memory. Tried to allocate 20 GiB.")]


@pytest.mark.parametrize("error", NO_MEMORY)
def test_a_stage_that_found_no_memory_is_repeated_alone(error: Exception) -> None:
    """When its neighbours have ended. What ran before it is not repeated, and what comes after it runs."""
    machine, before = LeasedMachine.of("H200"), [stage("compile", gpu=Need.SHARED)]
    starved = Stage("check", Starved([error]), gpu=Need.SHARED)
    found = run(replace(evaluation(), machine=machine), [*before, starved, stage("timing", gpu=Need.SHARED)])
    assert stages(found) == ["compile", "check", "timing"] and found.concluded is Verdict.PASS
    assert machine.notes == ["has shared", "has it no more", "has alone", "has it no more"]


@pytest.mark.parametrize("error", NO_MEMORY)
def test_no_memory_even_alone_is_no_fault_of_ours(error: Exception) -> None:
    starved = Stage("check", Starved([error] * 9), gpu=Need.SHARED)
    found = run(evaluation(), [stage("compile"), starved, stage("timing")])
    assert (found.concluded, found.results[-1].reason) == (Verdict.QUARANTINE, Reason.DISTURBED)
    assert stages(found) == ["compile", "check"]


def test_a_stage_that_needs_no_gpu_did_not_lack_its_memory() -> None:
    found = run(evaluation(), [Stage("check", Starved([RuntimeError("the disk is out of memory")]))])
    assert found.concluded is Verdict.FAULT


def test_what_the_user_gave_is_told_to_the_user() -> None:
    with pytest.raises(UsageError, match="task"):
        run(evaluation(), [raising(UsageError("the task is broken"))])


def test_below_the_floor_nothing_runs_unless_trusted() -> None:
    poor = Confined(achieved=("uid",), missing=("seccomp: refused",))
    refused = run(evaluation(poor), [stage("compile")])
    assert refused.results[0].reason is Reason.UNCONFINED and "seccomp: refused" in refused.results[0].detail
    assert stages(run(evaluation(poor, trust=True), [stage("compile")])) == ["compile"]


def test_stages_that_need_the_gpu_alike_have_it_in_one_go() -> None:
    machine = LeasedMachine(MACHINE.gpu)
    shared = [stage(name, gpu=Need.SHARED) for name in ("check", "sanitizer", "record")]
    timed = stage("timing", gpu=Need.ALONE)
    found = run(replace(evaluation(), machine=machine), [stage("compile"), *shared, timed])
    assert [note for note in machine.notes if note.startswith("has ") and note != "has it no more"] == [
        "has none",
        "has shared",
        "has alone",
    ]
    assert stages(found) == ["compile", "check", "sanitizer", "record", "timing"]


def test_no_evaluation_has_the_gpu_while_torch_is_waited_for() -> None:
    machine = LeasedMachine(MACHINE.gpu)
    timed = replace(stage("timing", gpu=Need.ALONE), prepare=lambda _evaluation: machine.notes.append("waits"))
    run(replace(evaluation(), machine=machine), [stage("check", gpu=Need.SHARED), timed])
    assert machine.notes == ["has shared", "has it no more", "waits", "has alone", "has it no more"]


class Process:
    """A product that holds something until it is closed."""

    is_open = True

    def close(self) -> None:
        self.is_open = False


@pytest.mark.parametrize("verdict", [Verdict.PASS, Verdict.FAIL])
def test_a_process_that_no_clock_used_is_ended_under_a_shared_lease(verdict: Verdict) -> None:
    process, reason = Process(), None if verdict is Verdict.PASS else Reason.WRONG_VALUE
    machine = LeasedMachine(MACHINE.gpu)
    one = stage("check", verdict, reason, products=(process,))
    assert run(replace(evaluation(), machine=machine), [one]).verdict is verdict
    assert not process.is_open and machine.notes[-2:] == ["has shared", "has it no more"]


def test_at_an_interrupt_processes_are_ended_without_a_lease() -> None:
    process, machine = Process(), LeasedMachine(MACHINE.gpu)
    with pytest.raises(KeyboardInterrupt):
        run(
            replace(evaluation(), machine=machine),
            [stage("check", products=(process,)), raising(KeyboardInterrupt(), "timing")],
        )
    assert not process.is_open and "has shared" not in machine.notes


def test_a_gpu_that_cannot_be_had_is_a_fault_of_ours() -> None:
    class Refusing(VirtualMachine):
        def lease(self, need: Need) -> AbstractContextManager[None]:
            raise OSError("no such folder")

    found = run(replace(evaluation(), machine=Refusing(MACHINE.gpu)), [stage("check"), stage("timing")])
    assert stages(found) == ["check"] and "no such folder" in found.results[0].detail
    assert found.concluded is Verdict.FAULT


def test_a_needed_product_that_no_stage_returned_is_a_fault_of_ours() -> None:
    found = run(evaluation(), [STAGES["vgpu"][-1]])
    assert found.concluded is Verdict.FAULT and "needs PassedCalls" in found.results[0].detail


def test_the_machines_differ_by_their_stages() -> None:
    assert [stage.name for stage in STAGES["vgpu"]] == ["static", "compile", "check", "timing"]
    before = ["static", "compile", "virtual", "check", "sanitizer", "record"]
    assert [stage.name for stage in STAGES["cuda"]] == [*before, "timing"]
    needs = {stage.name: stage.gpu for stage in STAGES["cuda"]}
    assert needs["timing"] is Need.ALONE and needs["check"] is Need.SHARED and needs["virtual"] is Need.NONE


def test_auto_is_cuda_where_there_is_a_gpu() -> None:
    gpu = Gpu("H200", "580", 1, "9.0")
    assert settle_device("auto", lambda: (gpu,)) == "cuda" and settle_device("vgpu", lambda: (gpu,)) == "vgpu"
    assert settle_device("auto", tuple) == "vgpu"
    with pytest.raises(MachineError, match="--device vgpu"):
        settle_device("cuda", tuple)
    with pytest.raises(UsageError, match="does not exist"):
        settle_device("tpu")


def test_a_record_stores_the_options() -> None:
    found = EvaluationConfig(device="vgpu", cases=(Group.DEV,), without=frozenset(Defence)).stored(5)
    assert found.seeds == (5,) and found.cases == ("dev",)
    assert found.model_dump()["extra"] == {"gpu": "H200", "without": "link,static,virtual"}


def test_a_plan_covers_the_chosen_group_or_the_usual_ones() -> None:
    usual = {step.trial.case.group for step in plan_calls(evaluation(), MACHINE)}
    assert usual == {Group.SMOKE, Group.HELDOUT}
    chosen = {step.trial.case.group for step in plan_calls(evaluation(cases=(Group.DEV,)), MACHINE)}
    assert chosen == {Group.DEV}


def test_a_direction_that_a_task_lacks_is_refused(tmp_path: object) -> None:
    with pytest.raises(UsageError, match="sideways"):
        evaluate("softmax", "x", config=EvaluationConfig(device="sideways"))


def test_the_stages_end_where_they_are_told_to_and_leave_out_what_is_left_out() -> None:
    names = [
        one.name
        for one in stages_for(EvaluationConfig(device="cuda", until="check", without=frozenset({Defence.VIRTUAL})))
    ]
    assert names[-1] == "check" and "compile" in names and "virtual" not in names
    assert stages_for(EvaluationConfig(device="vgpu")) == STAGES["vgpu"]
    with pytest.raises(UsageError, match="profile does not exist on vgpu; it has"):
        stages_for(EvaluationConfig(device="vgpu", until="profile"))


def test_what_is_not_run_is_said_in_the_options() -> None:
    stored = EvaluationConfig(device="cuda", until="check", without=frozenset({Defence.VIRTUAL})).stored(1)
    assert stored.model_dump()["extra"] == {"tier": "search", "until": "check", "without": "virtual"}


def test_a_sign_in_the_text_is_told_and_decides_nothing() -> None:
    candidate = CANDIDATE.model_copy(update={"source": "std::thread t(f);"})
    result = find_signs(replace(evaluation(), candidate=candidate)).result
    assert result.verdict is Verdict.PASS and result.detail == "signs: thread"
    left = stages_for(EvaluationConfig(device="vgpu", without=frozenset({Defence.STATIC})))
    assert "static" not in [stage.name for stage in left]


def test_a_record_says_when_it_was_made() -> None:
    when = environment(MACHINE).when
    assert when is not None and abs(datetime.now(UTC) - when) < timedelta(minutes=1)

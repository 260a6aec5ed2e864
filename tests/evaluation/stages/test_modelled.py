"""The modelled times, and the signs of work that the model does not see."""

from warpsmith.evaluation.check import PassedCall, PlannedCall
from warpsmith.evaluation.stages.modelled import modelled
from warpsmith.machines.virtual import Counters, Facts, LaunchRow, describe
from warpsmith.records import (
    Case,
    Direction,
    Dtype,
    Group,
    ModelledTime,
    Reason,
    StageResult,
    TimingFacts,
    Trial,
    Twist,
    Verdict,
)
from warpsmith.tasks.formats.own import read_task
from warpsmith.tasks.suite import suite_folder

TASK = read_task(suite_folder("softmax"))
GPU = describe("H200")
CASE = Case(name="c", group=Group.SMOKE, axes={"rows": 4096, "cols": 1024}, dtype=Dtype.FLOAT32)
TRIAL = Trial(case=CASE, seed=1)


def facts(instructions: int = 1000, launches: int = 1, host_bytes: int = 0) -> Facts:
    counters = Counters(thread_instructions=instructions, unique_read_bytes=1 << 24, unique_written_bytes=1 << 24)
    row = LaunchRow(
        kernel="k", launches=launches, grid=(4096, 1, 1), block=(256, 1, 1), blocks_per_sm=8, counters=counters
    )
    return Facts(kernels=(row,), host_bytes=host_bytes)


def seen(found: Facts, trial: Trial = TRIAL, again: bool = False) -> PassedCall:
    return PassedCall(PlannedCall(trial, again=again), 0.1, found)


def stage(*calls: PassedCall) -> StageResult:
    return modelled(TASK, Direction.FORWARD, calls, GPU)


def test_a_case_has_the_middle_time_of_its_fresh_calls() -> None:
    other = TRIAL.model_copy(update={"seed": 2})
    result = stage(seen(facts()), seen(facts(launches=2), other), seen(facts()), seen(facts(), again=True))
    assert result.verdict is Verdict.PASS
    assert isinstance(result.facts, TimingFacts) and result.facts.tier == "modelled"
    (timing,) = result.facts.cases
    assert isinstance(timing.time, ModelledTime) and timing.time.gpu == "H200" and timing.launches == 1
    assert timing.roofline is not None and 0.2 < timing.roofline <= 1.0
    assert timing.speedup is None and timing.baselines == {}
    assert timing.longest is not None and timing.longest.dram_read_bytes == 1 << 24


def test_without_a_call_there_is_nothing_to_say() -> None:
    assert stage().verdict is Verdict.SKIP


def test_no_kernel_is_hidden_work() -> None:
    result = stage(seen(facts()), seen(Facts()))
    assert result.verdict is Verdict.QUARANTINE and result.reason is Reason.HIDDEN_WORK
    assert "no kernel ran in 1 of 2 calls" in result.detail


def test_tensors_on_the_host_are_hidden_work_and_a_scalar_is_not() -> None:
    assert stage(seen(facts(host_bytes=4096))).reason is Reason.HIDDEN_WORK
    assert stage(seen(facts(host_bytes=8))).verdict is Verdict.PASS


def test_the_same_input_must_cost_again() -> None:
    nudged = TRIAL.model_copy(update={"twist": Twist.NUDGED})
    kept = stage(seen(facts(9000)), seen(facts(1000), nudged), seen(facts(100), again=True))
    assert kept.reason is Reason.HIDDEN_WORK and "100 instructions where it took 1000" in kept.detail
    tuned = stage(seen(facts(9000)), seen(facts(1000), nudged), seen(facts(1000), again=True))
    assert tuned.verdict is Verdict.PASS

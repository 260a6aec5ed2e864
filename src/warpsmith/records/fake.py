"""Records as an evaluation would make them, made up: for tests and measurements. Nothing here was ever run."""

from collections.abc import Mapping, Sequence

from warpsmith.records.candidate import Candidate
from warpsmith.records.environment import Environment
from warpsmith.records.facts import CaseTiming, Ratio, TimingFacts
from warpsmith.records.options import EvaluationOptions
from warpsmith.records.record import Record, StageResult
from warpsmith.records.task import Case, Direction, Dtype, Group
from warpsmith.records.times import MeasuredTime, ModelledTime
from warpsmith.records.verdict import Reason, Verdict

PASSED = StageResult(stage="check", verdict=Verdict.PASS)


def fake_candidate(
    source: str = "kernel", parents: Sequence[str] = (), macros: Mapping[str, str] | None = None, task: str = "softmax"
) -> Candidate:
    """A kernel with any text."""
    return Candidate(
        task=task, direction=Direction.FORWARD, source=source, parents=tuple(parents), macros=dict(macros or {})
    )


def fake_case(name: str = "case", group: Group = Group.TIMING, n: int = 8) -> Case:
    """A case of one axis."""
    return Case(name=name, group=group, axes={"n": n}, dtype=Dtype.FLOAT32)


def fake_time(us: float) -> MeasuredTime:
    """A measured time with a narrow spread."""
    return MeasuredTime(us=us, low_us=us * 0.99, high_us=us * 1.01, samples=200)


def fake_ratio(value: float) -> Ratio:
    """A speedup with a narrow spread."""
    return Ratio(value=value, low=value * 0.98, high=value * 1.02)


def fake_timing(us: float = 10.0, speedup: float | None = None, case: Case | None = None) -> CaseTiming:
    """A modelled time of one case; with a speedup, a measured one."""
    if speedup is None:
        return CaseTiming(case=case or fake_case(), time=ModelledTime(us=us, gpu="H200"))
    return CaseTiming(case=case or fake_case(), time=fake_time(us), speedup=fake_ratio(speedup))


def timed_record(
    candidate: Candidate,
    *timings: CaseTiming,
    fails: Reason | None = None,
    checked: StageResult = PASSED,
    hardware: str = "vgpu:H200",
    seed: int = 0,
) -> Record:
    """A record that was right and took these times, or was not timed where there are none; or one that `fails`."""
    if fails is not None:
        checked = StageResult(stage="check", verdict=Verdict.FAIL, reason=fails, detail="3 elements are wrong")
    facts = TimingFacts(tier="search" if hardware.startswith("cuda") else "modelled", cases=timings)
    timed = StageResult(stage="timing", verdict=Verdict.PASS, facts=facts)
    return Record(
        candidate=candidate,
        task_version="1",
        environment=Environment(device=hardware, hardware=hardware),
        options=EvaluationOptions(seeds=(seed,)),
        results=(checked, timed) if timings and fails is None else (checked,),
    )

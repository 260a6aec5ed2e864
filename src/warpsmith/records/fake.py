"""Made-up records for tests and benchmarks."""

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
    """Return a kernel with any text."""
    return Candidate(
        task=task, direction=Direction.FORWARD, source=source, parents=tuple(parents), macros=dict(macros or {})
    )


def fake_case(name: str = "case", group: Group = Group.TIMING, n: int = 8) -> Case:
    """Return a case with one axis."""
    return Case(name=name, group=group, axes={"n": n}, dtype=Dtype.FLOAT32)


def fake_time(us: float) -> MeasuredTime:
    """Return a measured time with a narrow interval."""
    return MeasuredTime(us=us, low_us=us * 0.99, high_us=us * 1.01, samples=200)


def fake_ratio(value: float) -> Ratio:
    """Return a speedup with a narrow interval."""
    return Ratio(value=value, low=value * 0.98, high=value * 1.02)


def fake_timing(us: float = 10.0, speedup: float | None = None, case: Case | None = None) -> CaseTiming:
    """Return a modelled time of one case, or a measured one for a speedup."""
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
    """Return a passed record with these times, or a record that fails for a reason."""
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

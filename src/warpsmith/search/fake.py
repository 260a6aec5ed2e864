"""A fake evaluator whose times follow from a kernel's text."""

from collections.abc import Callable, Mapping

from warpsmith.records import (
    Candidate,
    Case,
    CaseTiming,
    CheckFacts,
    Dtype,
    Environment,
    EvaluationOptions,
    Group,
    ModelledTime,
    Reason,
    Record,
    StageResult,
    TimingFacts,
    Verdict,
)

Clock = Callable[[Candidate], float | Reason]
CASE = Case(name="fake", group=Group.TIMING, axes={"rows": 1}, dtype=Dtype.FLOAT32)
HERE = Environment(device="fake", hardware="fake:0")
ENDS = {
    Reason.HARNESS: Verdict.FAULT,
    Reason.UNCONFINED: Verdict.FAULT,
    Reason.DISTURBED: Verdict.QUARANTINE,
}  # every other reason is a FAIL


def fake_record(candidate: Candidate, told: float | Reason, binding: str = "dram") -> Record:
    """Return a record with a time in µs or a reason."""
    record = Record(
        candidate=candidate, task_version="fake", environment=HERE, options=EvaluationOptions(device="fake")
    )
    if isinstance(told, Reason):
        detail = f"the fake evaluator says {told}"
        verdict = ENDS.get(told, Verdict.FAIL)
        return record.with_result(StageResult(stage="check", verdict=verdict, reason=told, detail=detail))
    timing = CaseTiming(case=CASE, time=ModelledTime(us=told, gpu="fake", binding=binding), roofline=1.0 / told)
    record = record.with_result(StageResult(stage="check", verdict=Verdict.PASS, facts=CheckFacts(device="fake")))
    facts = TimingFacts(tier="modelled", cases=(timing,))
    return record.with_result(StageResult(stage="timing", verdict=Verdict.PASS, facts=facts))


def fake_evaluator(clock: Clock) -> Callable[[Candidate], Record]:
    """Return an evaluator that takes its times from `clock`."""
    return lambda candidate: fake_record(candidate, clock(candidate))


def macro_clock(costs: Mapping[str, Mapping[str, float]], base_us: float = 100.0) -> Clock:
    """Return a clock that multiplies one factor for each macro value; values without a factor cost nothing."""

    def clock(candidate: Candidate) -> float | Reason:
        factors = [costs.get(name, {}).get(value, 1.0) for name, value in candidate.macros.items()]
        time = base_us
        for factor in factors:
            time *= factor
        return time

    return clock

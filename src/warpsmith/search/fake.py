"""An evaluator for tests, demos and measurements: the time of a kernel is a function of its text. Runs nothing."""

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
}  # every other reason is the kernel's fault


def fake_record(candidate: Candidate, told: float | Reason, binding: str = "dram") -> Record:
    """A record that passed in so many microseconds, or ended for a reason."""
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
    """An evaluator that answers at once by a clock of its own."""
    return lambda candidate: fake_record(candidate, clock(candidate))


def macro_clock(costs: Mapping[str, Mapping[str, float]], base_us: float = 100.0) -> Clock:
    """A time that is a product of one factor a macro's value; what is not named costs nothing."""

    def clock(candidate: Candidate) -> float | Reason:
        factors = [costs.get(name, {}).get(value, 1.0) for name, value in candidate.macros.items()]
        time = base_us
        for factor in factors:
            time *= factor
        return time

    return clock

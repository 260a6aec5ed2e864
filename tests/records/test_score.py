"""The score: a function of the record, of one kind, and only for kernels that were right."""

import pytest

from warpsmith.records import (
    Candidate,
    Case,
    CaseTiming,
    Direction,
    Dtype,
    Environment,
    Group,
    MeasuredScore,
    MeasuredTime,
    ModelledScore,
    ModelledTime,
    Ratio,
    Reason,
    Record,
    StageResult,
    TimingFacts,
    Verdict,
    score,
)

CHECKED = StageResult(stage="check", verdict=Verdict.PASS)


def case(name: str, time: MeasuredTime | ModelledTime, speedup: Ratio | None = None, **more: object) -> CaseTiming:
    where = {"name": name, "group": Group.TIMING, "axes": {"n": 1}, "dtype": Dtype.FLOAT32} | more
    return CaseTiming(case=Case.model_validate(where), time=time, speedup=speedup)


def record(
    *cases: CaseTiming, hardware: str = "cuda:H200", checked: StageResult = CHECKED, version: str = "1"
) -> Record:
    timing = StageResult(stage="timing", verdict=Verdict.PASS, facts=TimingFacts(tier="search", cases=cases))
    return Record(
        candidate=Candidate(task="softmax", direction=Direction.FORWARD, source="k"),
        task_version=version,
        environment=Environment(device="d", hardware=hardware),
        results=(checked, timing),
    )


def measured(name: str, value: float) -> CaseTiming:
    time = MeasuredTime(us=1, low_us=1, high_us=1, samples=9)
    return case(name, time, Ratio(value=value, low=value / 2, high=value * 2))


def modelled(name: str, us: float, gpu: str = "H200") -> CaseTiming:
    return case(name, ModelledTime(us=us, gpu=gpu))


def test_measured_is_the_geometric_mean_of_speedups_and_bounds() -> None:
    found = score(record(measured("a", 2.0), measured("b", 8.0)))
    assert isinstance(found, MeasuredScore) and found.cases == 2
    assert (found.value, found.low, found.high) == pytest.approx((4.0, 2.0, 8.0))


def test_modelled_is_the_inverse_of_the_geometric_mean_of_times() -> None:
    found = score(record(modelled("a", 2.0), modelled("b", 8.0)))
    assert isinstance(found, ModelledScore) and found.us == pytest.approx(4.0)
    assert found.value == pytest.approx(250_000.0)


def test_held_out_shapes_do_not_count() -> None:
    drawn = case("h", ModelledTime(us=1000.0, gpu="H200"), group=Group.HELDOUT)
    found = score(record(modelled("a", 2.0), drawn))
    assert isinstance(found, ModelledScore) and found.us == pytest.approx(2.0) and found.cases == 1
    assert score(record(drawn)) is None


@pytest.mark.parametrize(
    "cases",
    [
        (),
        (measured("a", 2.0), modelled("b", 2.0)),
        (measured("a", 2.0), case("b", MeasuredTime(us=1, low_us=1, high_us=1, samples=9))),
        (case("a", MeasuredTime(us=1, low_us=1, high_us=1, samples=9), Ratio(value=1.0, low=0.0, high=2.0)),),
        (case("a", MeasuredTime(us=1, low_us=1, high_us=1, samples=9), Ratio(value=2, low=1, high=float("inf"))),),
        (modelled("a", 0.0),),
        (modelled("a", float("nan")),),
    ],
    ids=["no case", "mixed", "no baseline", "no lower bound", "no upper bound", "no time", "nan"],
)
def test_what_has_no_score(cases: tuple[CaseTiming, ...]) -> None:
    assert score(record(*cases)) is None


@pytest.mark.parametrize(
    "checked",
    [
        StageResult(stage="check", verdict=Verdict.FAIL, reason=Reason.WRONG_VALUE),
        StageResult(stage="check", verdict=Verdict.SKIP, detail="an instruction it does not know"),
        StageResult(stage="check", verdict=Verdict.QUARANTINE, reason=Reason.HIDDEN_WORK),
        StageResult(stage="compile", verdict=Verdict.PASS),
    ],
    ids=["failed", "skipped", "quarantined", "never checked"],
)
def test_only_a_kernel_that_was_found_right_has_one(checked: StageResult) -> None:
    assert score(record(measured("a", 2.0), checked=checked)) is None


def test_the_basis_tells_what_may_be_compared() -> None:
    def basis(*cases: CaseTiming, **more: str) -> str:
        found = score(record(*cases, **more))
        assert found is not None
        return found.basis

    one = basis(measured("a", 2.0), measured("b", 3.0))
    assert one == basis(measured("b", 5.0), measured("a", 7.0))
    others = {
        basis(measured("a", 2.0)),
        basis(measured("a", 2.0), measured("b", 3.0), hardware="cuda:A100"),
        basis(measured("a", 2.0), measured("b", 3.0), version="2"),
        basis(modelled("a", 2.0), modelled("b", 3.0)),
        basis(modelled("a", 2.0, "A100"), modelled("b", 3.0, "A100")),
    }
    assert one not in others and len(others) == 5

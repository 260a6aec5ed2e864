"""The score: a function of the record, of one kind, and only for kernels that were right."""

import pytest

from warpsmith.records import (
    CaseTiming,
    EvaluationOptions,
    Group,
    MeasuredScore,
    ModelledScore,
    ModelledTime,
    Ratio,
    Reason,
    Record,
    StageResult,
    Verdict,
    score,
)
from warpsmith.records.fake import PASSED, fake_candidate, fake_case, fake_time, fake_timing, timed_record


def record(
    *cases: CaseTiming, hardware: str = "cuda:H200", checked: StageResult = PASSED, version: str = "1"
) -> Record:
    made = timed_record(fake_candidate(), *cases, checked=checked, hardware=hardware)
    return made.model_copy(update={"task_version": version})


def measured(name: str, value: float) -> CaseTiming:
    return fake_timing(1.0, value, fake_case(name))


def modelled(name: str, us: float, gpu: str = "H200") -> CaseTiming:
    return CaseTiming(case=fake_case(name), time=ModelledTime(us=us, gpu=gpu))


def against(speedup: Ratio | None) -> CaseTiming:
    return CaseTiming(case=fake_case("b"), time=fake_time(1.0), speedup=speedup)


def test_measured_is_the_geometric_mean_of_speedups_and_bounds() -> None:
    found = score(record(measured("a", 2.0), measured("b", 8.0)))
    assert isinstance(found, MeasuredScore) and found.cases == 2
    assert (found.value, found.low, found.high) == pytest.approx((4.0, 3.92, 4.08))


def test_modelled_is_the_inverse_of_the_geometric_mean_of_times() -> None:
    found = score(record(modelled("a", 2.0), modelled("b", 8.0)))
    assert isinstance(found, ModelledScore) and found.us == pytest.approx(4.0)
    assert found.value == pytest.approx(250_000.0)


def test_held_out_shapes_do_not_count() -> None:
    drawn = fake_timing(1000.0, case=fake_case("h", Group.HELDOUT))
    found = score(record(modelled("a", 2.0), drawn))
    assert isinstance(found, ModelledScore) and found.us == pytest.approx(2.0) and found.cases == 1
    assert score(record(drawn)) is None


@pytest.mark.parametrize(
    "cases",
    [
        (),
        (measured("a", 2.0), modelled("b", 2.0)),
        (measured("a", 2.0), against(None)),
        (against(Ratio(value=1.0, low=0.0, high=2.0)),),
        (against(Ratio(value=2, low=1, high=float("inf"))),),
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


@pytest.mark.parametrize("options", [EvaluationOptions(cache="warm"), EvaluationOptions(extra={"baselines": "eager"})])
def test_a_warm_cache_and_fewer_modes_of_torch_are_another_basis(options: EvaluationOptions) -> None:
    usual = record(measured("a", 2.0))
    found, other = score(usual), score(usual.model_copy(update={"options": options}))
    assert found and other and found.value == other.value and found.basis != other.basis

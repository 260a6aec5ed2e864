"""The comparison passes honest rounding and fails everything else, NaN first."""

import torch

from warpsmith.check import compare
from warpsmith.check.compare import Budget, _slow
from warpsmith.records import Case, Dtype, Group, Reason, Tolerance
from warpsmith.tasks.program import Problem

CASE = Case(name="c", group=Group.SMOKE, axes={"k": 4096}, dtype=Dtype.FLOAT32)
TOLERANCE = Tolerance(norm_floor={Dtype.FLOAT32: 2e-6}, reduction="k")


def product() -> tuple[torch.Tensor, torch.Tensor, Problem]:
    source = torch.Generator().manual_seed(1)
    a = torch.randn(8, 4096, generator=source)
    b = torch.randn(4096, 8, generator=source)
    expected = a.double() @ b.double()
    return a, b, Problem((a, b), (a @ b,), (expected,))


def judge(found: torch.Tensor, problem: Problem) -> Reason | None:
    return compare([found], problem, ["out"], TOLERANCE, CASE).reason


def test_sequential_accumulation_passes() -> None:
    a, b, problem = product()
    total = torch.zeros(8, 8)
    for k in range(4096):
        total = total + a[:, k : k + 1] * b[k : k + 1]
    assert judge(total, problem) is None


def test_reduced_mantissa_fails() -> None:
    a, b, problem = product()

    def chopped(x: torch.Tensor) -> torch.Tensor:
        return (x.view(torch.int32) & ~0x1FFF).view(torch.float32)  # the ten bits that TF32 keeps

    assert judge(chopped(a) @ chopped(b), problem) is Reason.WRONG_VALUE


def test_nan_fails() -> None:
    _, _, problem = product()
    found = problem.native[0].clone()
    found[3, 3] = float("nan")
    assert judge(found, problem) is Reason.WRONG_VALUE


def test_nan_where_nan_is_due_passes() -> None:
    expected = torch.tensor([1.0, float("nan"), float("inf")], dtype=torch.float64)
    problem = Problem((), (expected.float(),), (expected,))
    assert judge(expected.float(), problem) is None
    assert judge(torch.tensor([1.0, 2.0, float("inf")]), problem) is Reason.WRONG_VALUE
    assert judge(torch.tensor([1.0, float("nan"), float("-inf")]), problem) is Reason.WRONG_VALUE


def test_one_wrong_element_is_named() -> None:
    _, _, problem = product()
    found = problem.native[0].clone()
    found[2, 5] += 1
    outcome = compare([found], problem, ["out"], TOLERANCE, CASE)
    assert outcome.reason is Reason.WRONG_VALUE
    assert "out[2, 5]" in outcome.detail
    assert "1 of 64" in outcome.detail


def test_zeros_fail() -> None:
    _, _, problem = product()
    assert judge(torch.zeros(8, 8), problem) is Reason.WRONG_VALUE


def test_shape_dtype_and_count() -> None:
    _, _, problem = product()
    native = problem.native[0]
    assert judge(native[:1], problem) is Reason.WRONG_SHAPE
    assert judge(native.double(), problem) is Reason.WRONG_DTYPE
    assert compare([native, native], problem, ["out"], TOLERANCE, CASE).reason is Reason.BAD_ANSWER


def test_worst_is_below_one_for_torch_itself() -> None:
    _, _, problem = product()
    outcome = compare([problem.native[0]], problem, ["out"], TOLERANCE, CASE)
    assert 0 < outcome.worst <= 1


def test_equal_terms_may_round_the_same_way_each_time() -> None:
    """A plain sum of equal terms drifts as its length, not as the root of it."""
    case = Case(name="long", group=Group.SMOKE, axes={"k": 4099}, dtype=Dtype.FLOAT32)
    tolerance = Tolerance(reduction="k", norm_floor={Dtype.FLOAT32: 1e-6})
    term = torch.full((4, 4099), 0.1)
    found = torch.zeros(4)
    for column in term.T:
        found = found + column
    exact = term.double().sum(dim=1)
    problem = Problem((term,), (exact.float(),), (exact,))
    assert compare([found], problem, ["out"], tolerance, case).reason is Reason.WRONG_VALUE
    assert compare([found], problem, ["out"], tolerance, case, equal=True).passed
    off = exact.float() * (1 + 2**-11)
    assert compare([off], problem, ["out"], tolerance, case, equal=True).reason is Reason.WRONG_VALUE


def test_a_last_bit_beside_zeros_passes() -> None:
    zero = torch.zeros(8)
    problem = Problem((), (zero,), (zero.double(),))
    case = Case(name="c", group=Group.SMOKE, axes={"k": 1}, dtype=Dtype.FLOAT32)
    tolerance = Tolerance(reduction="k", norm_floor={Dtype.FLOAT32: 1e-6})
    assert compare([torch.nextafter(zero, zero + 1)], problem, ["out"], tolerance, case).passed
    assert compare([zero + 1e-30], problem, ["out"], tolerance, case).reason is Reason.WRONG_VALUE


def test_a_native_result_that_overflows_does_not_excuse_others() -> None:
    expected = torch.tensor([70000.0, 1.0], dtype=torch.float64)
    native = expected.to(torch.float16)  # the first is infinite
    problem = Problem((), (native,), (expected,))
    tolerance = Tolerance(norm_floor={Dtype.FLOAT16: 2e-3}, reduction="1")
    case = CASE.model_copy(update={"dtype": Dtype.FLOAT16})
    off = torch.tensor([float("inf"), 5.0], dtype=torch.float16)
    assert compare([off], problem, ["out"], tolerance, case).reason is Reason.WRONG_VALUE


def test_the_quick_way_and_the_slow_way_agree() -> None:
    _, _, problem = product()
    found = problem.native[0] * (1 + 1e-6)
    quick = compare([found], problem, ["out"], TOLERANCE, CASE)
    slow = _slow("out", found, problem.native[0], problem.expected[0], Budget.of(TOLERANCE, CASE))
    assert quick.passed and slow.passed
    assert abs(quick.worst / slow.worst - 1) < 1e-9

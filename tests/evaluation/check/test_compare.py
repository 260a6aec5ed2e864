"""The comparison passes honest rounding and fails everything else, NaN first."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from warpsmith.evaluation.check.compare import Budget, _compare_carefully, compare
from warpsmith.evaluation.check.terms import offset_ratio
from warpsmith.records import Case, Direction, Dtype, Family, Group, Numbers, Reason, Tolerance, Trial
from warpsmith.tasks.reference.program import Problem, problem as make_problem, solved
from warpsmith.tasks.suite import suite_program

CASE = Case(name="c", group=Group.SMOKE, axes={"k": 4096}, dtype=Dtype.FLOAT32)
TOLERANCE = Tolerance(norm_floor={Dtype.FLOAT32: 2e-6}, reduction="k")


def product() -> tuple[torch.Tensor, torch.Tensor, Problem]:
    source = torch.Generator().manual_seed(1)
    a = torch.randn(8, 4096, generator=source)
    b = torch.randn(4096, 8, generator=source)
    expected = a.double() @ b.double()
    return a, b, Problem((a, b), (a @ b,), (expected,))


def chopped(x: torch.Tensor) -> torch.Tensor:
    return (x.view(torch.int32) & ~0x1FFF).view(torch.float32)  # the ten bits that TF32 keeps


def judge(found: torch.Tensor, problem: Problem) -> Reason | None:
    return compare([found], problem, ["out"], Budget.of(TOLERANCE, CASE)).reason


def test_sequential_accumulation_passes() -> None:
    a, b, problem = product()
    total = torch.zeros(8, 8)
    for k in range(4096):
        total = total + a[:, k : k + 1] * b[k : k + 1]
    assert judge(total, problem) is None


def test_reduced_mantissa_fails() -> None:
    a, b, problem = product()
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
    outcome = compare([found], problem, ["out"], Budget.of(TOLERANCE, CASE))
    assert outcome.reason is Reason.WRONG_VALUE
    assert "out[2, 5]" in outcome.detail
    assert "1 of 64" in outcome.detail


def test_zeros_fail() -> None:
    _, _, problem = product()
    assert judge(torch.zeros(8, 8), problem) is Reason.WRONG_VALUE


def test_worst_is_below_one_for_torch_itself() -> None:
    _, _, problem = product()
    outcome = compare([problem.native[0]], problem, ["out"], Budget.of(TOLERANCE, CASE))
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
    assert compare([found], problem, ["out"], Budget.of(tolerance, case)).reason is Reason.WRONG_VALUE
    assert compare([found], problem, ["out"], Budget.of(tolerance, case, equal=True)).passed
    off = exact.float() * (1 + 2**-11)
    assert compare([off], problem, ["out"], Budget.of(tolerance, case, equal=True)).reason is Reason.WRONG_VALUE


def test_a_last_bit_beside_zeros_passes() -> None:
    zero = torch.zeros(8)
    problem = Problem((), (zero,), (zero.double(),))
    case = Case(name="c", group=Group.SMOKE, axes={"k": 1}, dtype=Dtype.FLOAT32)
    tolerance = Tolerance(reduction="k", norm_floor={Dtype.FLOAT32: 1e-6})
    assert compare([torch.nextafter(zero, zero + 1)], problem, ["out"], Budget.of(tolerance, case)).passed
    assert compare([zero + 1e-30], problem, ["out"], Budget.of(tolerance, case)).reason is Reason.WRONG_VALUE


def test_a_native_result_that_overflows_does_not_excuse_others() -> None:
    expected = torch.tensor([70000.0, 1.0], dtype=torch.float64)
    native = expected.to(torch.float16)  # the first is infinite
    problem = Problem((), (native,), (expected,))
    tolerance = Tolerance(norm_floor={Dtype.FLOAT16: 2e-3}, reduction="1")
    case = CASE.model_copy(update={"dtype": Dtype.FLOAT16})
    off = torch.tensor([float("inf"), 5.0], dtype=torch.float16)
    assert compare([off], problem, ["out"], Budget.of(tolerance, case)).reason is Reason.WRONG_VALUE


def test_the_quick_way_and_the_slow_way_agree() -> None:
    _, _, problem = product()
    found = problem.native[0] * (1 + 1e-6)
    quick = compare([found], problem, ["out"], Budget.of(TOLERANCE, CASE))
    slow = _compare_carefully("out", found, problem.native[0], problem.expected[0], Budget.of(TOLERANCE, CASE))
    assert quick.passed and slow.passed
    assert abs(quick.worst / slow.worst - 1) < 1e-9


def cancelling(length: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Two rows whose product has terms near one and a sum near zero."""
    source = torch.Generator().manual_seed(seed)
    x, w = (torch.rand(1, length, generator=source) + 0.5 for _ in range(2))
    x[:, 1::2], w[:, 1::2] = -x[:, ::2], w[:, ::2] * (1 + 1e-6)
    return x, w


def sequential(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    total = torch.zeros(1, 1)
    for one, other in zip(x[0], w[0], strict=True):
        total = total + one * other
    return total


@pytest.mark.parametrize("seed", range(12))
def test_one_result_whose_terms_cancel_may_be_off_by_what_its_terms_are(seed: int) -> None:
    program = suite_program("linear")
    length, (x, w) = 512, cancelling(512, seed)
    case = Case(
        name="c", group=Group.SMOKE, axes={"rows": 1, "inner": length, "cols": 1, "batch": 1}, dtype=Dtype.FLOAT32
    )
    one = solved(program, Direction.FORWARD, (x, w, torch.zeros(1)), 0)
    one = replace(one, native=(one.expected[0].float(),))  # torch may happen to be exact

    def judged(found: torch.Tensor) -> Reason | None:
        return compare([found], one, ["out"], Budget.of(program.task.tolerance, case)).reason

    assert judged(sequential(x, w)) is None
    assert judged(sequential(chopped(x), chopped(w))) is Reason.WRONG_VALUE
    assert judged(one.native[0] + 1e-3) is Reason.WRONG_VALUE


def test_a_gradient_s_terms_are_known_by_their_signs() -> None:
    program = suite_program("linear")
    source = torch.Generator().manual_seed(3)
    x, w = torch.randn(64, 8, generator=source), torch.randn(4, 8, generator=source)
    one = solved(program, Direction.BACKWARD, (x, w, torch.zeros(4)), 5)
    names = program.task.signature(Direction.BACKWARD).results
    sizes = dict(zip(names, one.sizes() or (), strict=True))
    grad = one.arguments[0]
    assert isinstance(grad, torch.Tensor)
    terms = (grad.double().square().T @ x.double().square()).sqrt()
    found = sizes[next(name for name in names if "weight" in name or name.endswith("_w"))]
    assert 0.7 < float((found / terms).mean()) < 1.3
    assert float(found.min()) > 0.2 * float(terms.min())


@pytest.mark.parametrize(("wrong", "allowed"), [("none", True), ("half", False), ("skipped", False)])
def test_the_size_of_terms_excuses_nothing_where_they_do_not_cancel(wrong: str, allowed: bool) -> None:
    program, cols = suite_program("layernorm"), 1 << 22
    source = torch.Generator().manual_seed(1)
    x, weight, bias = (torch.randn(shape, generator=source) for shape in ((1, cols), (cols,), (cols,)))
    arguments = tuple(
        {"x": x, "weight": weight, "bias": bias, "eps": 1e-5}.get(one.name) for one in program.task.forward.arguments
    )
    problem = solved(program, Direction.FORWARD, arguments, 0)
    used = x[:, : cols * 3 // 4] if wrong == "skipped" else x
    mean, variance = used.double().mean(1, keepdim=True), used.double().var(1, unbiased=False, keepdim=True)
    found = ((x - mean) / (variance + 1e-5).sqrt() * weight + bias).float()
    found = found.half().float() if wrong == "half" else found
    axes = {"rows": 1, "cols": cols}
    case = Case(name="c", group=Group.SMOKE, axes=axes, dtype=Dtype.FLOAT32)
    names = program.task.signature(Direction.FORWARD).results
    judged = compare([found], problem, names, Budget.of(program.task.tolerance, case))
    assert judged.passed is allowed, judged.detail
    assert problem.sizes() is not None


@pytest.mark.parametrize("length", [5, 192, 8209])
def test_two_passes_by_plain_sums_have_room_where_a_mean_is_far_and_one_pass_has_not(length: int) -> None:
    program = suite_program("layernorm")
    case = Case(name="far", group=Group.HELDOUT, axes={"rows": 6, "cols": length}, dtype=Dtype.FLOAT32)
    trial = Trial(case=case, family=Family.OFFSET, seed=5)
    one = make_problem(program, Direction.FORWARD, trial)
    x, weight, bias, eps = one.arguments
    assert isinstance(x, Tensor) and isinstance(eps, float)
    budget = Budget.of(program.task.tolerance.of(Direction.FORWARD), case, lift=offset_ratio(trial))

    def share(square: Tensor, mean: Tensor) -> float:
        found = (x - mean) * (square / length + eps).rsqrt() * weight + bias
        return compare([found], one, ["out"], budget).worst

    mean = in_order(x) / length
    assert share(in_order((x - mean).square()), mean) < 0.5
    assert share((x.square().sum(-1, keepdim=True) - length * mean.square()).clamp_min(0), mean) > 1


def in_order(terms: Tensor) -> Tensor:
    """A plain float32 sum along the last axis, one term after the other."""
    total = torch.zeros(terms.shape[:-1])
    for term in terms.unbind(-1):
        total = total + term
    return total.unsqueeze(-1)


def whole(truth: Tensor, own: Tensor | None = None) -> Problem:
    return Problem((), (truth if own is None else own,), (truth,))


@pytest.mark.parametrize("dtype", [dtype for dtype in Dtype if not dtype.floating])
def test_whole_numbers_are_compared_exactly(dtype: Dtype) -> None:
    truth = torch.tensor([0, 1, 1, 0]).to(getattr(torch, dtype))
    assert judge(truth.clone(), whole(truth)) is None
    found = truth.clone()
    found[2] = 0
    outcome = compare([found], whole(truth), ["out"], Budget.of(TOLERANCE, CASE))
    assert outcome.reason is Reason.WRONG_VALUE and outcome.detail.startswith("out[2] is 0; expected 1; 1 of 4 ")


def test_the_largest_int64_is_not_rounded() -> None:
    truth = torch.tensor([2**62 + 1])
    assert judge(truth, whole(truth)) is None and judge(truth - 1, whole(truth)) is Reason.WRONG_VALUE


def test_an_index_that_rounding_decided_may_be_torchs_own() -> None:
    truth, own = torch.tensor([3, 5]), torch.tensor([3, 4])
    assert judge(own, whole(truth, own)) is None and judge(truth, whole(truth, own)) is None
    assert judge(torch.tensor([4, 5]), whole(truth, own)) is Reason.WRONG_VALUE


def test_a_bool_is_0_or_1() -> None:
    truth = torch.tensor([True, True])
    found = torch.tensor([1, 255], dtype=torch.uint8).view(torch.bool)
    assert judge(found, whole(truth)) is Reason.WRONG_VALUE


@pytest.mark.parametrize("dtype", [dtype for dtype in Dtype if dtype.numbers is not Numbers.ROUNDED])
def test_poison_where_a_value_should_be_was_not_written(dtype: Dtype) -> None:
    truth, poison = torch.tensor([0, 1, 1, 0]).to(getattr(torch, dtype)), b"\x85\x7f"
    found = truth.clone()
    found.view(torch.uint8)[-dtype.bytes :] = torch.tensor(list(poison) * 4, dtype=torch.uint8)[-dtype.bytes :]
    budget = Budget.of(TOLERANCE, CASE)
    assert compare([found], whole(truth), ["out"], budget, poison).reason is Reason.UNWRITTEN
    found[1] = 0
    assert compare([found], whole(truth), ["out"], budget, poison).reason is Reason.WRONG_VALUE


STORED = [dtype for dtype in Dtype if dtype.numbers is Numbers.STORED]


def stored(dtype: Dtype, scale: float = 4.0) -> tuple[Tensor, Problem]:
    """Values, and the problem of storing them."""
    values = torch.randn(4096, dtype=torch.float64, generator=torch.Generator().manual_seed(3)) * scale
    return values, Problem((), (values.float().to(getattr(torch, dtype)),), (values,))


@pytest.mark.parametrize("dtype", STORED)
def test_eight_bits_may_be_rounded_either_way_and_after_bfloat16(dtype: Dtype) -> None:
    values, problem = stored(dtype)
    nearest = problem.native[0]
    assert judge(nearest, problem) is None
    assert judge(values.bfloat16().to(nearest.dtype), problem) is None
    down = nearest.view(torch.uint8) - (nearest.double().abs() > values.abs()).to(torch.uint8)
    assert judge(down.view(nearest.dtype), problem) is None, "towards zero"


@pytest.mark.parametrize("dtype", STORED)
def test_eight_bits_are_wrong_where_two_steps_or_a_common_factor_are_off(dtype: Dtype) -> None:
    values, problem = stored(dtype)
    nearest = problem.native[0]
    off = nearest.view(torch.uint8).clone()
    place = int((values.abs() - 5).abs().argmin())
    off[place] += 2
    assert judge(off.view(nearest.dtype), problem) is Reason.WRONG_VALUE
    assert judge((values * 1.25).to(nearest.dtype), problem) is Reason.WRONG_VALUE
    assert judge(torch.zeros_like(nearest), problem) is Reason.WRONG_VALUE
    broken = nearest.clone()
    broken[place] = float("nan")
    assert judge(broken, problem) is Reason.WRONG_VALUE


def test_eight_bits_past_the_largest_number_are_that_or_what_torch_makes() -> None:
    truth = torch.tensor([1.0, 1e6, -1e6], dtype=torch.float64)
    fine = torch.tensor([1.0, float("inf"), float("-inf")]).to(torch.float8_e5m2)
    problem = Problem((), (fine,), (truth,))
    assert judge(fine, problem) is None
    assert judge(torch.tensor([1.0, 57344.0, -57344.0]).to(torch.float8_e5m2), problem) is None
    assert judge(torch.tensor([1.0, 57344.0, 57344.0]).to(torch.float8_e5m2), problem) is Reason.WRONG_VALUE
    assert judge(torch.tensor([1.0, 49152.0, -57344.0]).to(torch.float8_e5m2), problem) is Reason.WRONG_VALUE

"""Slices of results: which there are, and that a narrow share of any kind is seen while honest rounding is not."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from warpsmith.evaluation.check import PlannedCall
from warpsmith.evaluation.check.compare import Budget, Comparison, compare
from warpsmith.evaluation.check.run import CONFIRMED_BY, CheckSubject, check
from warpsmith.evaluation.check.sliced import NEAR
from warpsmith.evaluation.check.slices import slice_counts, slice_name, slice_sums
from warpsmith.evaluation.check.terms import BETWEEN_ROUNDINGS, ROUNDINGS, SliceRule, slice_rule
from warpsmith.machines.virtual.machine import LIMITS
from warpsmith.machines.worker.fake_session import FakeSession
from warpsmith.machines.worker.session import Shown
from warpsmith.records import Case, Direction, Dtype, Family, Group, Origin, Reason, Trial, Twist, Verdict
from warpsmith.tasks.host import open_task
from warpsmith.tasks.inputs.values import Values
from warpsmith.tasks.reference.program import Problem
from warpsmith.tasks.suite import suite_program

LINEAR, SOFTMAX = suite_program("linear").task, suite_program("softmax").task


@pytest.mark.parametrize("shape", [(), (1,), (7,), (100,), (3, 1), (6, 40), (40, 50), (2, 3, 33, 16), (2, 1, 5, 70)])
def test_a_slice_is_what_its_name_says(shape: tuple[int, ...]) -> None:
    x = torch.rand(shape, dtype=torch.float64)
    sums, counts = slice_sums([x, 2 * x]), slice_counts(shape, x.device)
    assert torch.allclose(2 * sums[0], sums[1]) and len(counts) == sums.shape[1]
    for number, total in enumerate(sums[0].tolist()):
        name = slice_name(shape, number)
        if name.startswith("["):
            part = x[tuple(slice(None) if at == ":" else int(at) for at in name[1:-1].split(", ") if at)]
            assert (float(part.sum()), part.numel()) == (pytest.approx(total), int(counts[number]))


def test_rows_heads_columns_and_blocks_of_them_are_slices() -> None:
    shape = (2, 3, 33, 20)
    names = {slice_name(shape, number) for number in range(len(slice_counts(shape, torch.device("cpu"))))}
    for name in ("[:, :, :, :]", "[1, :, :, :]", "[1, 2, :, :]", "[0, 1, 32, :]", "[:, 2, :, :]", "[:, :, 7, :]"):
        assert name in names
    assert "[:, :, :, 19]" in names and "the 16 slices from [:, :, 16, :] on" in names


def rounded(x: Tensor, steps: float) -> Tensor:
    """By blocks of 32 along the last axis, as 8-bit integers are."""
    blocks = x.reshape(*x.shape[:-1], -1, 32)
    step = blocks.abs().amax(-1, keepdim=True).clamp_min(1e-30) / steps
    return ((blocks / step).round() * step).reshape(x.shape)


def product(dtype: torch.dtype, narrow: Callable[[Tensor, Tensor, Tensor], Tensor] | None, seed: int = 1) -> Comparison:
    """A product of 96 by 128 over 256 terms, changed by `narrow`, held against its slices alone."""
    source = torch.Generator().manual_seed(seed)
    x, w = (torch.randn(rows, 256, generator=source).to(dtype).float() for rows in (96, 128))
    exact = x.double() @ w.double().T
    found = x @ w.T if narrow is None else narrow(x, w, x @ w.T)
    case = Case(name="c", group=Group.SMOKE, axes={"rows": 96, "inner": 256, "cols": 128}, dtype=Dtype(str(dtype)[6:]))
    tolerance = LINEAR.tolerance.of(Direction.FORWARD)
    problem = Problem((), ((x @ w.T).to(dtype),), (exact,))
    return compare([found.to(dtype)], problem, ["out"], Budget.of(tolerance, case, rule=SliceRule(ROUNDINGS)))


def in_rows(x: Tensor, w: Tensor, out: Tensor) -> Tensor:
    out[80:] = rounded(x[80:], 127) @ rounded(w, 127).T
    return out


def in_columns(x: Tensor, w: Tensor, out: Tensor) -> Tensor:
    out[:, 100:] = rounded(x, 127) @ rounded(w[100:], 127).T
    return out


def in_terms(x: Tensor, w: Tensor, out: Tensor) -> Tensor:
    return x[:, 96:] @ w[:, 96:].T + rounded(x[:, :96], 127) @ rounded(w[:, :96], 127).T


@pytest.mark.parametrize("narrow", [in_rows, in_columns, in_terms])
def test_8_bit_integers_for_a_share_are_seen(narrow: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
    found = product(torch.bfloat16, narrow)
    assert found.reason is Reason.WRONG_VALUE and "slice" in found.detail


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("seed", range(5))
def test_roundings_and_plain_sums_are_not(dtype: torch.dtype, seed: int) -> None:
    def in_order(x: Tensor, w: Tensor, _out: Tensor) -> Tensor:
        total = torch.zeros(96, 128)
        for k in range(256):
            total = total + x[:, k : k + 1] * w[:, k]
        return total

    def twice(x: Tensor, w: Tensor, out: Tensor) -> Tensor:
        return (out[..., None].to(dtype).float() + 0.37).sub(0.37)[..., 0].to(dtype).float() * (1 + 2.0**-20)

    assert product(dtype, None, seed).worst < 1
    assert product(dtype, in_order, seed).worst < 1
    assert product(dtype, twice, seed).worst < 1


def test_three_bfloat16_products_after_a_row_are_seen_in_float32() -> None:
    def narrow(x: Tensor, w: Tensor, out: Tensor) -> Tensor:
        (p, a), (q, b) = (((whole := t.bfloat16().float()), (t - whole).bfloat16().float()) for t in (x[90:], w))
        out[90:] = p @ q.T + p @ b.T + a @ q.T
        return out

    assert product(torch.float32, narrow).reason is Reason.WRONG_VALUE


def softmax(dtype: torch.dtype, lean: float) -> Comparison:
    """Rows whose sums are all off by a share of a roundoff, below the rounding of the results."""
    x = torch.randn(8, 4096, generator=torch.Generator().manual_seed(2)).to(dtype)
    exact = x.double().softmax(-1)
    found = (exact * (1 + lean * torch.finfo(dtype).eps / 2)).to(dtype)
    case = Case(name="c", group=Group.SMOKE, axes={"rows": 8, "cols": 4096}, dtype=Dtype(str(dtype)[6:]))
    rule = slice_rule(SOFTMAX, Direction.FORWARD, Trial(case=case))
    assert rule.shared
    budget = Budget.of(SOFTMAX.tolerance.of(Direction.FORWARD), case, rule=rule)
    return compare([found], Problem((), (exact.to(dtype),), (exact,)), ["out"], budget)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_sum_that_is_off_shows_below_the_roundings_of_results(dtype: torch.dtype) -> None:
    assert softmax(dtype, 0.0).passed and softmax(dtype, 0.02).passed
    found = softmax(dtype, 0.3)
    assert found.reason is Reason.WRONG_VALUE and "lean" in found.detail


def test_the_bound_is_tight_where_inputs_are_plain_and_the_task_s_own_elsewhere() -> None:
    case = LINEAR.group(Group.SMOKE)[0]
    tight = slice_rule(LINEAR, Direction.FORWARD, Trial(case=case))
    assert tight.roundings == ROUNDINGS and not tight.shared
    for family in (Family.UNIFORM, Family.BLOCK_ONE_HOT):
        assert slice_rule(LINEAR, Direction.BACKWARD, Trial(case=case, family=family)).is_tight
    for other in (Trial(case=case, family=Family.VAST), Trial(case=case, twist=Twist.PEAKED)):
        assert not slice_rule(LINEAR, Direction.FORWARD, other).is_tight
    foreign = LINEAR.model_copy(update={"origin": Origin.MODULE})
    assert not slice_rule(foreign, Direction.FORWARD, Trial(case=case)).is_tight
    attention = suite_program("attention").task
    trial = Trial(case=attention.group(Group.SMOKE)[0])
    assert slice_rule(attention, Direction.FORWARD, trial).roundings == BETWEEN_ROUNDINGS
    assert not slice_rule(attention, Direction.BACKWARD, trial).is_tight, "what forward saved is rounded"


def as_tf32(x: Tensor) -> Tensor:
    """Round to the ten bits of TF32's fraction."""
    return ((x.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("terms", [1, 2, 5])
def test_three_products_of_tf32_are_within_the_bound_of_short_sums(terms: int, seed: int) -> None:
    source = torch.Generator().manual_seed(seed)
    x, w = (torch.randn(rows, terms, generator=source) for rows in (17, 213))
    exact = x.double() @ w.double().T
    high = [as_tf32(one) for one in (x, w)]
    low = [as_tf32(one - upper) for one, upper in zip((x, w), high, strict=True)]
    found = low[0] @ high[1].T + high[0] @ low[1].T + high[0] @ high[1].T
    case = Case(name="c", group=Group.SMOKE, axes={"rows": 17, "inner": terms, "cols": 213}, dtype=Dtype.FLOAT32)
    budget = Budget.of(LINEAR.tolerance.of(Direction.FORWARD), case, rule=SliceRule(ROUNDINGS))
    assert compare([found], Problem((), (x @ w.T,), (exact,)), ["out"], budget).worst < 0.8
    single = compare([high[0] @ high[1].T], Problem((), (x @ w.T,), (exact,)), ["out"], budget)
    assert single.reason is Reason.WRONG_VALUE


def test_one_slice_may_have_most_of_the_error_of_uneven_inputs_only() -> None:
    exact = torch.randn(32, 64, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    found = (exact + torch.zeros(32, 64).index_fill(0, torch.tensor([5]), 0.5e-5 * float(exact.norm()) / 8)).float()
    case = Case(name="c", group=Group.SMOKE, axes={"rows": 32, "inner": 4, "cols": 64}, dtype=Dtype.FLOAT32)
    tolerance = LINEAR.tolerance.of(Direction.FORWARD).model_copy(
        update={"norm_floor": {Dtype.FLOAT32: 1e-5}, "factor": 1e3}
    )
    problem = Problem((), (exact.float(),), (exact,))
    for is_uneven in (True, False):
        budget = Budget.of(tolerance, case, rule=SliceRule(is_uneven=is_uneven))
        assert compare([found], problem, ["out"], budget).passed is is_uneven


OPENED = open_task("linear")
SUBJECT = CheckSubject(OPENED.describe(), Direction.FORWARD, OPENED.problem)


def off(arguments: Values, share: float) -> Shown:
    """The right result with one column, of bfloat16, off by a share of a roundoff."""
    x, weight, bias = (one.double() for one in arguments if isinstance(one, Tensor))
    out = torch.nn.functional.linear(x, weight, bias)
    out[:, 3] *= 1 + share * 2.0**-8
    return Shown(None, (out.bfloat16(),))


def near_share() -> tuple[PlannedCall, float]:
    """A call, and by how much a column must be off to be beyond its bound by a little."""
    case = Case(name="c", group=Group.SMOKE, axes={"rows": 64, "inner": 32, "cols": 48}, dtype=Dtype.BFLOAT16)
    step = PlannedCall(Trial(case=case, seed=11))
    problem = OPENED.problem(Direction.FORWARD, step.trial)
    rule = slice_rule(SUBJECT.task, Direction.FORWARD, step.trial)
    budget = Budget.of(SUBJECT.task.tolerance.of(Direction.FORWARD), case, rule=rule)
    for tenth in range(8, 40):
        found = compare(off(problem.arguments, tenth / 10).results, problem, ["out"], budget)
        if found.near:
            assert 1 < found.worst < NEAR
            return step, tenth / 10
    raise AssertionError("nothing is near")


def test_a_slice_hardly_beyond_its_bound_is_checked_on_three_more_inputs() -> None:
    step, share = near_share()
    calls: list[Values] = []

    def once(arguments: Values) -> Shown:
        calls.append(arguments)
        return off(arguments, share if len(calls) == 1 else 0.0)

    found = check(SUBJECT, [step], FakeSession(once), LIMITS)
    assert found.result.verdict is Verdict.PASS and len(calls) == 1 + CONFIRMED_BY
    inputs = [one[0] for one in calls]
    assert len({float(one.double().sum()) for one in inputs if isinstance(one, Tensor)}) == 1 + CONFIRMED_BY

    for wrong in range(2, 2 + CONFIRMED_BY):
        calls.clear()

        def again(arguments: Values, wrong: int = wrong) -> Shown:
            calls.append(arguments)
            return off(arguments, share if len(calls) in (1, wrong) else 0.0)

        found = check(SUBJECT, [step], FakeSession(again), LIMITS)
        assert found.result.verdict is Verdict.FAIL and len(calls) == wrong


def test_a_slice_far_beyond_its_bound_fails_at_once() -> None:
    step, share = near_share()
    calls: list[Values] = []

    def wrong(arguments: Values) -> Shown:
        calls.append(arguments)
        return off(arguments, 2.5 * share)

    found = check(SUBJECT, [replace(step, slot=1)], FakeSession(wrong), LIMITS)
    assert found.result.verdict is Verdict.FAIL and len(calls) == 1

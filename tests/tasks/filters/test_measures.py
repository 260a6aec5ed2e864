"""The numeric filters on functions small enough to know the numbers of."""

import pytest
import torch
from torch import Tensor

from warpsmith.records import Origin
from warpsmith.tasks.filters import Filter, apply_filters
from warpsmith.tasks.filters.baseline import check_trivial_answers
from warpsmith.tasks.filters.fake import CASE, FakeProgram, draw_samples, fake_program
from warpsmith.tasks.filters.gradient import check_gradients
from warpsmith.tasks.filters.impact import DIRECT, check_impact, perturb_values
from warpsmith.tasks.filters.numbers import relative_change, thin
from warpsmith.tasks.filters.outputs import check_axis_variation, check_output_deviation, check_output_range
from warpsmith.tasks.filters.plan import Clock, plan_samples
from warpsmith.tasks.filters.report import FilterResult, Skip
from warpsmith.tasks.filters.subject import ELEMENTS, ROWS, FilteredProgram


def answered(answer: FilterResult | Skip | None) -> FilterResult:
    assert isinstance(answer, FilterResult)
    return answer


def test_the_range_is_the_least_of_the_draws() -> None:
    given = fake_program(lambda x: torch.full_like(x, 0.5))
    assert check_output_range(given, draw_samples(given)).value == 0.5


def test_infinity_is_no_range() -> None:
    given = fake_program(lambda x: x / 0)
    assert not check_output_range(given, draw_samples(given)).passed


def test_the_deviation_is_relative() -> None:
    small, large = fake_program(lambda x: x * 1e-6), fake_program(lambda x: x * 1e6)
    one, two = check_output_deviation(small, draw_samples(small)), check_output_deviation(large, draw_samples(large))
    assert one.passed
    assert one.value == pytest.approx(two.value, rel=1e-5)


def test_one_number_deviates_over_the_draws() -> None:
    given = fake_program(lambda x: x.sum())
    assert "over 2 draws" in check_output_deviation(given, draw_samples(given)).detail


def test_the_axis_that_repeats_is_named() -> None:
    given = fake_program(lambda x: x[:, :1].expand(-1, 16))
    found = answered(check_axis_variation(given, draw_samples(given)))
    assert not found.passed
    assert found.detail.startswith("the standard deviation along axis 1 (size 16) of out")


def test_an_ignored_argument_is_named_and_everything_else_stays_fixed() -> None:
    given = fake_program(lambda x, x2, w: x * w, "x", "x2", "w")
    found = answered(check_impact(given, *draw_samples(given), Filter.INPUT_IMPACT))
    assert not found.passed
    assert "'x2'" in found.detail
    assert answered(check_impact(given, *draw_samples(given), Filter.PARAMETER_IMPACT)).passed


def test_whole_numbers_are_drawn_anew() -> None:
    used, unused = fake_program(lambda x, i: x[i], "x", "i"), fake_program(lambda x, i: x, "x", "i")
    assert answered(check_impact(used, *draw_samples(used), Filter.INPUT_IMPACT)).passed
    assert not answered(check_impact(unused, *draw_samples(unused), Filter.INPUT_IMPACT)).passed


def test_a_mean_of_many_products_shows_when_values_are_related() -> None:
    given = fake_program(lambda x, y: torch.cosine_similarity(x, y, dim=1).mean() + 1, "x", "x2", shape=(2048, 512))
    assert answered(check_impact(given, *draw_samples(given), Filter.INPUT_IMPACT)).passed


def test_many_parameters_cost_one_backward_pass_and_the_dead_one_is_found() -> None:
    names = ["x", *(f"w{place}" for place in range(3 * DIRECT))]
    given = fake_program(lambda x, *weights: x * sum(w.tanh() for w in weights[1:]), *names)
    base, other = draw_samples(given)
    assert isinstance(given.program, FakeProgram)
    before = given.program.calls
    found = answered(check_impact(given, base, other, Filter.PARAMETER_IMPACT))
    assert not found.passed
    assert "'w0'" in found.detail
    assert given.program.calls - before < 2 * DIRECT


def test_what_is_shaken_keeps_its_kind() -> None:
    assert bool((perturb_values(torch.ones(5)) > 0).all())
    assert perturb_values(torch.tensor([True, False])).tolist() == [False, True]
    assert perturb_values(torch.tensor([1, 2, 3])).tolist() == [3, 1, 2]
    assert bool(perturb_values(torch.zeros(4)).any())


@pytest.mark.parametrize(
    ("origin", "passed"), [(Origin.SUITE, True), (Origin.KERNELBENCH, False), (Origin.ROBUST_KBENCH, False)]
)
def test_a_benchmark_is_held_to_its_own_tolerance(origin: Origin, passed: bool) -> None:
    program = FakeProgram(lambda x: x * 1.002, origin=origin)
    given = FilteredProgram(program, Clock(60.0))
    assert check_trivial_answers(given, *draw_samples(given)).passed is passed


def test_a_copy_of_an_input_is_named() -> None:
    given = fake_program(lambda x: x + 0)
    assert "'x' itself" in check_trivial_answers(given, *draw_samples(given)).detail


def test_a_gradient_that_is_refused_is_an_objection() -> None:
    given = fake_program(lambda x: torch.argmax(x, 1).float())
    found = answered(check_gradients(given, draw_samples(given)[0]))
    assert not found.passed
    assert "autograd refuses" in found.detail


def test_a_gradient_that_is_not_finite_is_an_objection() -> None:
    given = fake_program(lambda x: (x * 0).sqrt() + x)
    assert not answered(check_gradients(given, draw_samples(given)[0])).passed


def test_large_inputs_are_cut_along_the_leading_axis() -> None:
    given = fake_program(lambda x, w: x * w[:1], "x", "w", shape=(64, ELEMENTS // 16))
    base, _ = draw_samples(given)
    assert base.outputs[0].shape[0] == 16
    assert given.notes() == ("case 'only' was looked at on 16 of 64 rows of x",)


def test_what_cannot_be_cut_together_is_cut_alone_or_not_at_all() -> None:
    product = fake_program(lambda x, x2: x @ x2, "x", "x2", shape=(1024, 1024))
    assert draw_samples(product)[0].outputs[0].shape[1] == 1024

    def whole(x: Tensor) -> Tensor:
        assert x.shape[0] == 2048
        return x.sum(0)

    assert draw_samples(fake_program(whole, shape=(2048, 2048)))[0].outputs[0].shape == (2048,)


def test_slow_tasks_skip_what_takes_many_calls() -> None:
    given = FakeProgram(torch.tanh)
    report = apply_filters(given, seconds=0.0)
    assert report.find_result(Filter.OUTPUT_RANGE) is not None
    assert Filter.GRADIENTS in {skip.filter for skip in report.skipped}


def test_a_task_in_place_does_not_change_its_draw() -> None:
    given = fake_program(lambda x: x.mul_(2))
    base, _ = draw_samples(given)
    assert torch.equal(base.outputs[0], base.arguments[0] * 2)  # type: ignore[operator]


def test_draws_begin_with_two_seeds_of_the_first_case() -> None:
    first, second, *_ = plan_samples([CASE])
    assert (first.case, first.init) == (second.case, second.init)
    assert first.seed != second.seed


def test_numbers_of_large_tensors_look_at_part_of_them() -> None:
    assert thin(torch.zeros(1 << 12, 1 << 12), most=1 << 10).numel() == 1 << 10
    assert thin(torch.ones(3, dtype=torch.int64)).dtype is torch.float64


def test_change_is_infinite_for_another_shape_and_zero_for_equal_infinities() -> None:
    one = torch.tensor([1.0, float("inf")])
    assert relative_change([one], [one.clone()]) == 0
    assert relative_change([one], [one[:1]]) == float("inf")
    assert relative_change([one], [torch.tensor([2.0, float("inf")])]) == 1
    assert ROWS >= 2

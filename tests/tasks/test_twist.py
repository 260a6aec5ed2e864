"""Twists: one element, a row, or the order of all, from the seed; everything else stays."""

import pytest
import torch
from torch import Tensor

from warpsmith.records import Direction, Dtype, Group, Trial, Twist
from warpsmith.tasks.host import open_task
from warpsmith.tasks.inputs.twist import HIGH, PEAK, SCALE, SHARE, _raised
from warpsmith.tasks.inputs.values import tensors
from warpsmith.tasks.reference.program import problem
from warpsmith.tasks.suite import suite_program

PROGRAM = suite_program("linear")
CASE = PROGRAM.task.group(Group.SMOKE)[0]


def drawn(twist: Twist, seed: int = 3, direction: Direction = Direction.FORWARD) -> list[Tensor]:
    return tensors(problem(PROGRAM, direction, Trial(case=CASE, seed=seed, twist=twist)).arguments)


def test_a_nudge_changes_one_element_of_one_tensor_far() -> None:
    pairs = list(zip(drawn(Twist.NONE), drawn(Twist.NUDGED), strict=True))
    assert sum(int((a != b).sum()) for a, b in pairs) == 1
    (plain, nudged) = next((a, b) for a, b in pairs if not torch.equal(a, b))
    assert float(nudged.max()) > 7 * float(plain.abs().max())


def test_nudges_reach_every_tensor_by_the_seed() -> None:
    places = set()
    for seed in range(20):
        pairs = zip(drawn(Twist.NONE, seed), drawn(Twist.NUDGED, seed), strict=True)
        places |= {place for place, (a, b) in enumerate(pairs) if not torch.equal(a, b)}
    assert places == {0, 1, 2}


def test_a_shuffle_keeps_the_values_and_their_statistics() -> None:
    for plain, shuffled in zip(drawn(Twist.NONE), drawn(Twist.SHUFFLED), strict=True):
        assert not torch.equal(plain, shuffled) and plain.stride() == shuffled.stride()
        assert torch.equal(plain.flatten().sort().values, shuffled.flatten().sort().values)


@pytest.mark.parametrize(("twist", "by"), [(Twist.RAISED, HIGH), (Twist.PEAKED, PEAK)])
def test_half_of_one_row_is_raised_and_nothing_else(twist: Twist, by: float) -> None:
    (x, *parameters), (raised, *same) = drawn(Twist.NONE), drawn(twist)
    changed = x != raised
    assert len(changed.nonzero()[:, 0].unique()) == 1 and x.stride() == raised.stride()
    assert torch.equal(raised[changed], x[changed] + by)
    assert all(torch.equal(a, b) for a, b in zip(parameters, same, strict=True)), "parameters have their own inits"


@pytest.mark.parametrize("shape", [(), (1,), (40,), (2, 64), (40, 6), (3, 5, 7, 9)])
def test_a_sixteenth_at_most_is_raised_of_any_shape(shape: tuple[int, ...]) -> None:
    x = torch.zeros(shape).transpose(0, -1) if shape else torch.zeros(())
    places = set[int]()
    for seed in range(20):
        (raised,) = _raised([x], torch.Generator().manual_seed(seed))
        assert 1 <= int((raised == HIGH).sum()) <= max(1, min(x.numel() // SHARE, (x.shape or [2])[-1] // 2))
        places.add(int(raised.flatten().argmax()))
    assert len(places) > 3 or x.numel() == 1


def test_raised_rows_of_several_inputs_do_not_meet() -> None:
    """Products of two of them would be past what float32 tells apart."""
    narrow, few, many = ([torch.zeros(*shape) for _ in range(3)] for shape in ((8, 2), (8, 5), (2, 2, 8, 5)))
    for seed in range(20):
        source = torch.Generator().manual_seed(seed)
        assert sum(bool(tensor.any()) for tensor in _raised(narrow, source)) == 1
        columns = [tensor.any(0) for tensor in _raised(few, source)]
        assert all(map(bool, map(torch.any, columns))) and not (sum(column.int() for column in columns) > 1).any()
        heads = [int(tensor.flatten(0, 1).any(-1).any(-1).nonzero()) for tensor in _raised(many, source)]
        assert len(set(heads)) == 3


def test_what_the_element_type_cannot_hold_is_left_as_it_was() -> None:
    ffw = suite_program("llama_ffw")
    case = next(case for case in ffw.task.cases if case.dtype is Dtype.FLOAT16)
    trials = [Trial(case=case, seed=seed, init="wide", twist=Twist.PEAKED) for seed in range(4)]
    for trial in trials:
        made = problem(ffw, Direction.FORWARD, trial)
        assert all(bool(result.isfinite().all()) for result in made.native)
        plain = problem(ffw, Direction.FORWARD, trial.model_copy(update={"twist": Twist.NONE}))
        assert torch.equal(tensors(made.arguments)[0], tensors(plain.arguments)[0])


def test_scaled_inputs_are_past_float16_and_their_product_is_what_it_was() -> None:
    attention, seen = suite_program("attention"), set[bool]()
    for seed in range(9):
        trial = Trial(case=attention.task.group(Group.SMOKE)[0], seed=seed)
        plain = problem(attention, Direction.FORWARD, trial)
        scaled = problem(attention, Direction.FORWARD, trial.model_copy(update={"twist": Twist.SCALED}))
        pairs = zip(tensors(plain.arguments), tensors(scaled.arguments), strict=True)
        q, k, v = (float((b / a).median()) for a, b in pairs)
        assert q == v == 1 / k and q in (SCALE, 1 / SCALE)
        assert torch.allclose(scaled.expected[0], plain.expected[0] * v, rtol=1e-12)
        seen.add(v > 1)
    assert seen == {True, False}


def test_upstream_gradients_are_not_twisted() -> None:
    plain, nudged = (drawn(twist, direction=Direction.BACKWARD) for twist in (Twist.NONE, Twist.NUDGED))
    assert torch.equal(plain[0], nudged[0])


@pytest.mark.parametrize("twist", [Twist.NUDGED, Twist.RAISED, Twist.PEAKED, Twist.SHUFFLED, Twist.SCALED])
@pytest.mark.parametrize("name", ["cross_entropy", "attention", "max_pool", "rope"])
def test_a_twist_shows_in_the_result(name: str, twist: Twist) -> None:
    with open_task(name) as task:
        case = task.describe().group(Group.SMOKE)[0]
        one, other = (
            task.problem(Direction.FORWARD, Trial(case=case, seed=5, twist=which)) for which in (Twist.NONE, twist)
        )
    assert not torch.allclose(one.expected[0], other.expected[0], rtol=1e-3)

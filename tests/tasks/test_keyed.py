"""Draws from a secret: one-way, of one distribution with timed inputs, and as before for older records."""

import random
from itertools import pairwise

import pytest
import torch

from warpsmith.base import digest_json
from warpsmith.evaluation import EvaluationConfig
from warpsmith.evaluation.check import PlanScope, plan_steps
from warpsmith.records import Case, Direction, Dtype, Family, Group, Record, Trial
from warpsmith.tasks.inputs import KeyedRandom, families_of, input_seed, secret_source
from warpsmith.tasks.inputs.draw import ROUNDS, STEP, Draw, RandomWords, unrepeated
from warpsmith.tasks.inputs.keyed import KEYED, SCHEME, is_keyed
from warpsmith.tasks.suite import suite_program

CASE = Case(name="c", group=Group.SMOKE, axes={}, dtype=Dtype.FLOAT32)
LATTICE = 2**0.5 / 2**21
MASK = (1 << 64) - 1
# Of the plans that commit 5f69968 made of seed 7.
FIRST_SCHEME = {
    "linear": ("bda975cfdba5e13f5d1fdc6e248b49cd", "809e3482519d32165df5154fd64e1fba"),
    "softmax": ("fadffa26f061f320111e9008fae8feec", "d7b1c18d2f46b0204351f735f2ff3238"),
}


def keyed_draw(number: int, family: Family = Family.NORMAL, dtype: Dtype = Dtype.FLOAT32) -> Draw:
    case = CASE.model_copy(update={"dtype": dtype})
    return Draw(Trial(case=case, family=family, seed=input_seed(KeyedRandom(number))))


def on_lattice(values: torch.Tensor) -> float:
    """The share of values that are a multiple of the step of the first scheme."""
    steps = values.flatten() / LATTICE
    return float(((steps - steps.round()).abs() < 1e-6).double().mean())


def test_checked_and_timed_inputs_are_of_one_distribution() -> None:
    checked = keyed_draw(1).normal(60_000)
    with unrepeated(random.Random(1)):
        timed = Draw(Trial(case=CASE)).normal(60_000)
    first = Draw(Trial(case=CASE, seed=5)).normal(60_000)
    assert on_lattice(first) == 1.0, "as old records have it"
    for found in (checked, timed):
        assert on_lattice(found) < 1e-3
        fine = found / (2**0.5 * 2.0**-32)
        assert float((fine - fine.round()).abs().max()) < 1e-3, "both are sums of six numbers of 32 bits"
    places = torch.linspace(0.05, 0.95, 9, dtype=torch.float64)
    assert torch.allclose(checked.quantile(places), timed.quantile(places), atol=0.06)
    assert float(checked.abs().max()) < 6 * 2**-0.5 * 1.01 > float(timed.abs().max())


def test_every_seed_of_a_plan_is_keyed_and_none_is_told_by_others() -> None:
    task = suite_program("softmax").task
    steps = plan_steps(task, Direction.FORWARD, PlanScope(heldout_work=1e5), 7)
    seeds = {step.trial.seed for step in steps}
    assert all(is_keyed(seed) and seed < 1 << 63 for seed in seeds)
    stream = random.Random(7)
    assert not seeds & {stream.getrandbits(62) | KEYED for _ in range(5000)}


def test_words_of_one_tensor_say_nothing_about_the_next() -> None:
    """splitmix64 can be inverted: from a word, the start of its tensor. That start leads to no other tensor."""
    words = RandomWords(input_seed(KeyedRandom(3)))
    first, second = (words._whole(4).tolist() for _ in range(2))
    begins = [inverted(one[0]) - STEP & MASK for one in (first, second)]
    assert [word(begins[0] + STEP * (i + 1)) for i in range(4)] == [one & MASK for one in first]
    assert not {word(begins[0] + STEP * (i + 1)) for i in range(1000)} & {one & MASK for one in second}
    plain = RandomWords(3)
    ahead = [plain._whole(4).tolist() for _ in range(2)]
    start = inverted(ahead[0][0]) - STEP
    assert [word(start + STEP * (i + 5)) for i in range(4)] == [one & MASK for one in ahead[1]], (
        "as the first scheme did"
    )


def word(state: int) -> int:
    value = state & MASK
    for shift, factor in ROUNDS:
        value = (value ^ (value >> shift)) * factor & MASK
    return value


def inverted(value: int) -> int:
    """The state of splitmix64 behind one of its words."""
    value &= MASK
    for shift, factor in reversed(ROUNDS):
        value = value * pow(factor, -1, 1 << 64) & MASK
        undone = value
        for _ in range(64 // shift):
            undone = value ^ (undone >> shift)
        value = undone
    return value


def test_a_keyed_source_repeats_and_is_even() -> None:
    one, same, other = KeyedRandom(5, "plan"), KeyedRandom(5, "plan"), KeyedRandom(5, "sketch")
    drawn = [one.random() for _ in range(4000)]
    assert drawn == [same.random() for _ in range(4000)] != [other.random() for _ in range(4000)]
    assert 0.48 < sum(drawn) / len(drawn) < 0.52
    assert {one.randrange(7) for _ in range(200)} == set(range(7))
    assert sorted(one.sample(range(50), 50)) == list(range(50))
    assert KeyedRandom(5).getrandbits(1) in (0, 1)
    assert abs(sum((b > a) for a, b in pairwise(drawn)) - 2000) < 150


@pytest.mark.parametrize("name", FIRST_SCHEME)
def test_a_plan_of_the_first_scheme_is_what_it_was(name: str) -> None:
    for direction, known in zip(Direction, FIRST_SCHEME[name], strict=True):
        task, scope = suite_program(name).task, PlanScope(heldout_work=4e6, scheme=1)
        steps = plan_steps(task, direction, scope, 7)
        made = [[one.trial.model_dump(mode="json"), one.slot, one.again, one.streak] for one in steps]
        assert digest_json(made) == known
        assert plan_steps(task, direction, PlanScope(heldout_work=4e6), 7) != steps


def test_a_record_names_its_scheme_and_an_older_one_has_the_first(golden_text: str) -> None:
    assert EvaluationConfig().stored(3).scheme == SCHEME == 2
    assert Record.parse(golden_text).options.scheme == 1
    assert isinstance(secret_source(3, "plan", 2), KeyedRandom)
    assert secret_source(3, "plan", 1).getrandbits(62) == random.Random(3).getrandbits(62)


@pytest.fixture
def golden_text(request: pytest.FixtureRequest) -> str:
    return next((request.config.rootpath / "tests" / "golden").glob("*.json")).read_text()


@pytest.mark.parametrize("shape", [(40, 64), (3, 2, 33, 16), (2, 12, 9, 9), (50,)])
def test_sums_of_the_block_family_live_on_a_few_terms(shape: tuple[int, ...]) -> None:
    axes = set()
    for number in range(12):
        x = keyed_draw(number, Family.BLOCK_ONE_HOT).input(*shape)
        counts = {axis: (x != 0).sum(axis) for axis in range(len(shape))}
        few = [axis for axis, count in counts.items() if int(count.max()) <= 8 and int(count.min()) >= 1]
        assert few, "along one axis every sum has one to eight terms"
        axes |= {axis for axis in few if shape[axis] > 8}
    assert axes


def test_only_tasks_that_multiply_matrices_have_the_block_family() -> None:
    for name, expected in {
        "linear": True,
        "attention": True,
        "unet_conv2d": True,
        "softmax": False,
        "rope": False,
    }.items():
        task = suite_program(name).task
        assert (Family.BLOCK_ONE_HOT in families_of(task, Dtype.FLOAT32)) is expected is task.multiplies_matrices
        steps = plan_steps(task, Direction.FORWARD, PlanScope(heldout_work=4e6), 3)
        called = {step.trial.case.name for step in steps if step.trial.family is Family.BLOCK_ONE_HOT}
        assert len(called) >= 5 if expected else not called

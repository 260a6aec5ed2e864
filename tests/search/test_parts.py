"""The small parts of the search: bandit, stops, ideas, lessons, population, tuner, each by itself."""

import random
from collections import Counter

import pytest
from evolving import KERNEL, kernel, start

from warpsmith.languages.cuda.tunables import read_space
from warpsmith.machines.virtual import LaunchRow, describe, modelled_cost
from warpsmith.records import Direction, Lesson, Precision, Reason, Record
from warpsmith.search.fake import fake_record
from warpsmith.search.proposals.evidence import lesson_lines, make_lesson
from warpsmith.search.proposals.operators import TRAITS, applicable_ideas, draw_idea, load_ideas
from warpsmith.search.selection.bandit import Arm, Bandit
from warpsmith.search.selection.population import Population
from warpsmith.search.selection.stops import RunProgress, SearchConfig, find_stop
from warpsmith.search.selection.tuner import TunerTrials, point_of
from warpsmith.tasks.formats.own import read_task
from warpsmith.tasks.suite import suite_folder

A, B = Arm("cheap", "improve"), Arm("dear", "improve")


def told(bandit: Bandit, arm: Arm, reward: float, usd: float | None, times: int) -> None:
    for _ in range(times):
        bandit.add_pull(arm, reward, usd)


def test_every_arm_is_tried_before_any_twice() -> None:
    assert set(Bandit([A, B]).choose(2, ["improve"])) == {A, B}


def test_the_arm_that_pays_is_chosen_more_often() -> None:
    bandit = Bandit([A, B])
    told(bandit, A, 0.0, 0.0, 20)
    told(bandit, B, 0.8, 0.0, 20)
    assert Counter(bandit.choose(10, ["improve"]))[B] >= 8


def test_of_equal_gain_the_cheaper_model_is_chosen() -> None:
    bandit = Bandit([B, A])
    told(bandit, A, 0.5, 0.01, 20)
    told(bandit, B, 0.5, 0.16, 20)
    assert Counter(bandit.choose(10, ["improve"]))[A] >= 8


@pytest.mark.parametrize(("usd", "worth"), [(0.0, 2.0), (None, 1.0), (0.1, 2**0.5)])
def test_a_free_model_costs_nothing_and_one_of_unknown_price_the_mean(usd: float | None, worth: float) -> None:
    """Beside a model of 30 cents: a quarter of the mean at least, the mean, or 10 of 20 cents."""
    alone, beside = Bandit([A, B]), Bandit([A, B])
    for bandit in (alone, beside):
        told(bandit, A, 0.5, usd, 20)
    told(alone, B, 0.5, None, 20)
    told(beside, B, 0.5, 0.3, 20)
    assert beside._worth(A, {}, [A, B]) / alone._worth(A, {}, [A, B]) == pytest.approx(worth)


def test_a_free_model_is_chosen_before_a_paid_one_of_equal_gain_and_not_before_a_far_better_one() -> None:
    for reward, free in ((0.5, 8), (0.0, 2)):
        bandit = Bandit([B, A])
        told(bandit, A, reward, 0.0, 200)
        told(bandit, B, 0.5, 0.3, 200)
        chosen = Counter(bandit.choose(10, ["improve"]))[A]
        assert chosen >= free if reward else chosen <= free


def test_of_equal_gain_the_model_with_more_weight_is_chosen() -> None:
    bandit = Bandit([A, B], {B.model: 2.0})
    told(bandit, A, 0.5, 0.0, 20)
    told(bandit, B, 0.5, 0.0, 20)
    assert Counter(bandit.choose(10, ["improve"]))[B] >= 8


def test_only_operators_that_have_something_to_work_on_are_chosen() -> None:
    repair = Arm("cheap", "repair")
    assert Bandit([A, repair]).choose(3, ["repair"]) == [repair] * 3
    assert Bandit([A]).choose(3, []) == []


def test_what_was_told_decides_and_nothing_else() -> None:
    def made() -> Bandit:
        bandit = Bandit([A, B])
        told(bandit, A, 0.2, 0.1, 3)
        told(bandit, B, 0.3, 0.4, 5)
        return bandit

    assert made().choose(8, ["improve"]) == made().choose(8, ["improve"])


@pytest.mark.parametrize(
    ("limits", "progress", "why"),
    [
        (SearchConfig(), RunProgress(generation=10), "10 of 10 generations"),
        (SearchConfig(budget_usd=1.0), RunProgress(usd=1.2), "1.20 of 1.00 dollars"),
        (SearchConfig(budget_minutes=3), RunProgress(minutes=3.5), "3.5 of 3.0 minutes"),
        (SearchConfig(budget_evaluations=5), RunProgress(evaluations=5), "5 of 5 evaluations"),
        (SearchConfig(goal=2.0), RunProgress(gain=2.1), "the target of 2.00× is reached"),
        (SearchConfig(roofline=0.9), RunProgress(roofline=0.95), "95% of the roofline"),
        (SearchConfig(patience=3), RunProgress(idle=3), "no gain for 3 generations"),
        (SearchConfig(), RunProgress(exhausted=True), "nothing is left"),
        (SearchConfig(), RunProgress(exhausted=True, out_of_budget=True), "holds no further request"),
    ],
)
def test_each_stop_says_why(limits: SearchConfig, progress: RunProgress, why: str) -> None:
    assert why in find_stop(progress, limits)


def test_without_a_reason_a_run_goes_on() -> None:
    assert find_stop(RunProgress(generation=3, usd=5, minutes=9, idle=1), SearchConfig()) == ""
    assert (
        find_stop(RunProgress(usd=0.0), SearchConfig(budget_usd=0.0)) == ""
    )  # a budget of zero asks no model; the tuner goes on


def test_there_are_forty_ideas_and_more_each_with_when_it_applies() -> None:
    assert len(load_ideas()) >= 40 and len({idea.id for idea in load_ideas()}) == len(load_ideas())
    assert all(len(idea.advice) > 40 and idea.when for idea in load_ideas())


def offered(name: str, direction: Direction = Direction.FORWARD, capability: float = 9.0, **update: object) -> set[str]:
    """The ideas for a task of the suite, perhaps a changed one."""
    task = read_task(suite_folder(name)).model_copy(update=update)
    return {idea.id for idea in applicable_ideas(capability, task, direction)}


def test_an_idea_of_a_newer_architecture_is_not_given_to_an_older_one() -> None:
    assert "wgmma" in offered("linear")
    assert "wgmma" not in offered("linear", capability=8.6)
    assert "cp-async" not in offered("linear", capability=7.5)


OF_PRODUCTS = {"mma-sync", "wgmma", "register-tile", "shared-tile", "split-k", "block-swizzle", "library-product"}
PASSES = ("softmax", "layernorm", "llama_rmsnorm", "group_norm_silu", "rope", "swiglu", "max_pool", "cross_entropy")


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("name", PASSES)
def test_a_pass_over_rows_is_offered_nothing_of_products(name: str, direction: Direction) -> None:
    found = offered(name, direction)
    assert not found & (OF_PRODUCTS | {"flash-attention", "flash-backward", "implicit-gemm"})
    assert {"vector-loads", "hold-in-registers", "tune-declared"} <= found


@pytest.mark.parametrize("direction", Direction)
def test_a_product_is_offered_what_its_task_allows(direction: Direction) -> None:
    assert offered("linear", direction) >= OF_PRODUCTS
    assert "library-product" not in offered("attention", direction)
    tensor = {"mma-sync", "wgmma"}
    assert not offered("linear_relu", direction) & tensor, "float32 alone, without TF32"
    assert offered("linear_relu", direction, precision=Precision(tf32=True)) >= tensor
    assert offered("softmax", direction, cost={}) >= tensor, "nobody knows what it does"


def test_an_idea_for_one_kind_of_task_or_direction_is_for_that_one() -> None:
    assert "flash-attention" in offered("attention") and "flash-backward" not in offered("attention")
    assert "flash-backward" in offered("attention", Direction.BACKWARD)
    assert "implicit-gemm" in offered("unet_conv2d") and "implicit-gemm" not in offered("linear")
    assert "fuse-pool" in offered("max_pool") and "fuse-pool" not in offered("linear")
    assert "packed-half" in offered("rope") and "packed-half" not in offered("cross_entropy")


def test_ideas_need_traits_that_there_are_and_help_against_what_can_bind() -> None:
    assert all(need in TRAITS for idea in load_ideas() for need in idea.needs)
    gpu = describe("H200")
    row = LaunchRow(kernel="k", launches=1, grid=(1, 1, 1), block=(32, 1, 1), classes=dict.fromkeys(gpu.pipes, 1))
    words = {*modelled_cost(row, gpu).bounds_us, "launch", "memory"}
    assert {word for idea in load_ideas() for word in idea.helps} <= words


def test_ideas_that_help_against_what_binds_come_more_often_and_tried_ones_less() -> None:
    draw = random.Random(1)
    found = Counter(draw_idea(load_ideas(), "atomics", {}, draw).id for _ in range(4000))
    assert found["block-then-atomic"] > 2 * found["vector-loads"] > 0
    tried = Counter(draw_idea(load_ideas(), "atomics", {"block-then-atomic": 4}, draw).id for _ in range(4000))
    assert tried["block-then-atomic"] < found["block-then-atomic"] / 4


def record(us: float | Reason, body: str = "1.0f", binding: str = "dram") -> Record:
    return fake_record(start(kernel(body)), us, binding)


def test_lessons_tell_what_helped_and_what_failed_with_numbers() -> None:
    own = [
        Lesson(task="t", what="vector loads", gain=1.4),
        Lesson(task="t", what="more threads", gain=0.7),
        Lesson(task="t", what="one barrier less", fault="findings: a race in line 7"),
        Lesson(task="t", what="no barrier", fault="findings: a race in line 9"),
    ]
    lines = lesson_lines([*own, Lesson(task="other", what="split rows", gain=1.3)], "t")
    assert "helped: vector loads: 1.40× its parent" in lines
    assert "hurt: more threads: 0.70× its parent" in lines
    assert "failed 2 times with findings: a race in line 9" in lines
    assert lesson_lines(own[2:3], "t") == ["failed once with findings: a race in line 7"]
    assert "helped: split rows: 1.30× its parent (on other)" in lines


def test_a_record_teaches_its_gain_or_its_fault_and_a_mishap_teaches_nothing() -> None:
    assert make_lesson("t", "x", record(5.0), 1.5) == Lesson(task="t", what="x", gain=1.5)
    failed = make_lesson("t", "x", record(Reason.WRONG_VALUE), None)
    assert failed is not None and failed.fault.startswith("wrong_value: the fake evaluator")
    for harness_errors in (Reason.HARNESS, Reason.UNCONFINED, Reason.DISTURBED):
        assert make_lesson("t", "x", record(harness_errors), None) is None


def test_a_population_ranks_by_gain_over_its_first_member() -> None:
    one = Population()
    one.add(record(10.0), 0)
    one.add(record(5.0, "2.0f"), 1, "twice as fast")
    assert one.add(record(Reason.WRONG_VALUE, "3.0f"), 1) is None
    assert [round(member.gain, 6) for member in one.ranked()] == [2.0, 1.0]
    assert one.best is not None and one.best.name == "twice as fast"


def test_a_full_population_keeps_the_best_of_every_cell() -> None:
    one = Population(room=4)
    one.add(record(100.0, "0.0f", "atomics"), 0)
    for number in range(8):
        one.add(record(10.0 - number, f"{number}.5f"), 1)
    assert len(one.members) == 4
    assert "atomics" in " ".join(one.elites())


def test_context_goes_from_slow_to_fast_and_holds_parents_and_the_best() -> None:
    one = Population()
    for number in range(9):
        one.add(record(10.0 - number, f"{number}.5f"), 1)
    slowest = one.ranked()[-1]
    shown = one.draw_context([slowest], random.Random(3))
    assert len(shown) == 5 and shown[0] is slowest and shown[-1] is one.best
    assert [member.gain for member in shown] == sorted(member.gain for member in shown)


def test_parents_are_mostly_the_fast_ones_with_a_share_of_other_cells() -> None:
    one = Population()
    one.add(record(100.0, "0.0f", "atomics"), 0)
    for number in range(12):
        one.add(record(20.0 - number, f"{number}.5f"), 1)
    draw = random.Random(5)
    drawn = Counter(chosen.fitness.binding for _ in range(600) if (chosen := one.draw_parent(draw)) is not None)
    assert 30 < drawn["atomics"] < 200


def test_a_small_space_is_searched_whole_and_nothing_twice() -> None:
    trials = TunerTrials(read_space(KERNEL))
    while found := trials.propose(5, random.Random(1)):
        for macros in found:
            assert point_of(macros) not in trials.gains
            trials.gains[point_of(macros)] = 1.0
    assert len(trials.gains) == 12


LARGE = "".join(
    f"// tune: T{n} = 0 [0, 1, 2, 3]\n#ifndef T{n}\n#define T{n} 0\n#endif\n" for n in range(6)
)  # 4096 points


def test_a_large_space_is_climbed_to_its_best_point_with_few_trials() -> None:
    trials = TunerTrials(read_space(LARGE))

    def gain(macros: dict[str, str]) -> float:
        return sum(2.0 if macros.get(f"T{n}", "0") == str(n % 4) else 1.0 for n in range(6))

    while found := trials.propose(8, random.Random(len(trials.gains))):
        for macros in found:
            trials.gains[point_of(macros)] = gain(dict(macros))
    assert gain(dict(trials.best)) == 12.0
    assert len(trials.gains) < 120


def test_a_point_that_failed_is_neither_best_nor_tried_again() -> None:
    trials = TunerTrials(read_space(KERNEL), {(): 1.0, (("VEC", "4"),): None})
    assert trials.best == {}
    assert {"VEC": "4"} not in [dict(one) for one in trials.propose(12, random.Random(2))]

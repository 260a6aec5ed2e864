"""Sketches of an evaluation: what siblings stand for, and how counters are carried to the full size."""

import pytest

from warpsmith.app import first_candidate
from warpsmith.evaluation import EvaluationConfig, grade
from warpsmith.evaluation.check.plan import case_work
from warpsmith.evaluation.stages.probe import Probe, dense, probe, probes, timed
from warpsmith.evaluation.stages.sketch import carried, full_call, sketch_steps, together
from warpsmith.machines.virtual import Facts, LaunchRow, describe, total
from warpsmith.machines.virtual.cost import Transfers
from warpsmith.machines.virtual.rows import Counters
from warpsmith.records import Case, CheckFacts, Direction, Dtype, Group, ModelledTime, Record, TimingFacts, Verdict
from warpsmith.tasks.suite import suite

FORWARD = Direction.FORWARD
TASKS = {task.name: task for task in suite()}


def case(**axes: int) -> Case:
    return Case(name="full", group=Group.TIMING, axes=axes, dtype=Dtype.FLOAT32)


def test_what_grows_with_the_sizes_is_carried_exactly() -> None:
    one = Probe(case(rows=4096, cols=512), {"rows": 4096, "cols": 512}, {"rows": (16, 32), "cols": (8, 16)})
    found = [float(3 * c.axes["rows"] * c.axes["cols"] + 7 * c.axes["rows"] + 11) for c in one.siblings()]
    assert one.carried(found) == pytest.approx(3 * 4096 * 512 + 7 * 4096 + 11)


def test_what_grows_with_the_square_of_a_size_is_carried_from_three() -> None:
    one = Probe(case(seq=2048), {"seq": 2048}, {"seq": (64, 128, 256)})
    assert one.carried([s * s / 2 + s for s in (64.0, 128.0, 256.0)]) == pytest.approx(2048**2 / 2 + 2048)


def test_one_size_stands_for_an_axis_in_proportion() -> None:
    one = Probe(case(rows=4096), {"rows": 4096}, {"rows": (512,)})
    assert one.carried([3.0]) == one.growth * 3.0 == 24.0


def test_what_shrinks_is_never_carried_below_what_was_seen() -> None:
    one = Probe(case(rows=4096), {"rows": 4096}, {"rows": (16, 32)})
    assert one.carried([10.0, 9.0]) == 10.0


def row(instructions: int) -> LaunchRow:
    counted = Counters(warp_instructions=instructions, unique_read_bytes=1 << 28, longest_thread=10)
    return LaunchRow(kernel="k", launches=1, grid=(4096, 1, 1), block=(256, 1, 1), blocks_per_sm=8, counters=counted)


def test_of_kernels_that_move_the_same_bytes_the_one_that_needs_less_else_is_faster() -> None:
    gpu = describe("H200")
    light, heavy = (together([row(count)], gpu, Transfers()) for count in (1 << 20, 1 << 25))
    assert light.binding == heavy.binding == "dram"
    assert total([row(1 << 20)], gpu).us <= light.us < heavy.us < 1.3 * light.us


def test_launches_of_one_kernel_are_one_whether_their_sizes_are_equal_or_not() -> None:
    one = Probe(case(rows=64), {"rows": 64}, {"rows": (1, 2)})
    apart = Facts(kernels=(row(100), row(300).model_copy(update={"grid": (8192, 1, 1)})))
    joined = Facts(kernels=(row(800).model_copy(update={"launches": 2, "grid": (12288, 1, 1)}),))
    call, note = carried(one, (apart, joined), describe("H200"))
    assert note.startswith("counters carried over") and call.time.us > 0


def test_an_axis_that_one_size_stands_for_makes_a_launch_larger_and_not_more_of_them() -> None:
    one = Probe(case(rows=64, cols=128), {"rows": 64, "cols": 128}, {"rows": (16,), "cols": (32, 64)})
    facts = [Facts(kernels=(row(count),)) for count in (1000, 2000)]
    call, _ = carried(one, facts, describe("H200"))
    (grown,) = call.rows
    assert one.across == 4.0 and grown.launches == call.launches == 1
    assert grown.counters.warp_instructions == 4 * 4000


def test_other_kernels_by_size_are_never_taken_for_faster() -> None:
    one = Probe(case(rows=64), {"rows": 64}, {"rows": (1, 2)})
    first, second = Facts(kernels=(row(100),)), Facts(kernels=(row(100).model_copy(update={"kernel": "other"}),))
    call, note = carried(one, (first, second), describe("H200"))
    assert "other kernels by size" in note and call.time.us > 30 * (
        together([row(100)], describe("H200"), Transfers()).us - 4
    )


@pytest.mark.parametrize("name", TASKS)
def test_siblings_are_cheap_and_keep_the_rules_of_their_task(name: str) -> None:
    task = TASKS[name]
    found = probes(task, FORWARD)
    assert found, "every task of the suite can be probed"
    for one in found:
        most = 1e9 if one.moved else 4.5e8  # products of full tiles run faster
        assert sum(case_work(task, FORWARD, sibling) for sibling in one.siblings()) <= most
        assert len({sibling.name for sibling in one.siblings()}) == len(one.siblings())
        assert all(sibling.dtype is one.case.dtype for sibling in one.siblings())


def test_rows_are_cut_and_columns_kept_where_rows_are_passed_over() -> None:
    task = TASKS["softmax"]
    found = probe(task, FORWARD, next(one for one in task.cases if one.name == "llama-scores-32x4096"))
    assert found is not None and set(found.sizes) == {"rows"} and not dense(task, FORWARD, found.case)


def test_the_sides_of_a_large_product_are_kept_so_large_that_hosts_take_the_same_kernels() -> None:
    task = TASKS["linear"]
    full = next(one for one in task.cases if one.name == "llama-70b-4096")
    found = probe(task, FORWARD, full)
    assert found is not None and found.moved is not None
    assert [(one.axes["rows"], one.axes["cols"]) for one in found.siblings()] == [(1536, 1536)] * 2
    moved = Facts(kernels=(row(100),))
    call = full_call(found, (moved, moved))
    assert call[0][0].counters.unique_read_bytes == round((1 << 28) * found.moved)


def test_no_axis_of_the_gradients_of_a_product_is_cut_below_a_tile() -> None:
    found = probes(TASKS["linear"], Direction.BACKWARD)[-1]
    assert min(size for sizes in found.sizes.values() for size in sizes) >= 128


def test_rows_are_cut_to_no_fewer_than_there_are_multiprocessors() -> None:
    task = TASKS["llama_rmsnorm"]
    full = next(one for one in task.cases if one.name == "llama-7b-4096-float32")
    found = probe(task, Direction.BACKWARD, full)
    assert found is not None and found.sizes == {"rows": (144, 288)}


def test_every_cheap_timing_case_can_be_asked_for() -> None:
    task = TASKS["linear"]
    names = {one.case.name for one in timed(task, FORWARD)}
    assert names >= {one.case.name for one in probes(task, FORWARD)} and "llama-7b-4096-bfloat16" in names


def test_a_case_that_cannot_be_made_cheap_is_not_probed() -> None:
    task = TASKS["resnet_block"]
    assert probe(task, FORWARD, next(one for one in task.cases if one.name == "resnet-stage-3")) is None


def test_a_task_that_calculates_little_is_counted_by_what_it_moves() -> None:
    task = TASKS["max_pool"]
    names = {one.case.name for one in probes(task, Direction.BACKWARD)}
    assert names == {"mnist", "resnet50-stem", "vgg16-224"}  # planes of 512 by 512 pass the budget of instructions


def test_a_sketch_calls_each_smoke_case_and_one_twice() -> None:
    task = TASKS["layernorm"]
    steps = sketch_steps(task, FORWARD, 7)
    smoke = [step for step in steps if step.trial.case.group is Group.SMOKE]
    assert len(smoke) == len(task.group(Group.SMOKE)) + 1 and sum(step.again for step in smoke) == 1
    assert steps == sketch_steps(task, FORWARD, 7) != sketch_steps(task, FORWARD, 8)


def graded(effort: str) -> Record:
    candidate = first_candidate("swiglu", FORWARD)
    assert candidate is not None
    return grade(candidate, EvaluationConfig(device="vgpu", effort=effort))  # type: ignore[arg-type]


def test_a_sketch_says_what_it_is_and_gives_modelled_times_of_the_timing_cases() -> None:
    record = graded("sketch")
    assert record.concluded is Verdict.PASS and record.options.effort == "sketch"
    timing = record.result("timing")
    assert timing is not None and isinstance(timing.facts, TimingFacts)
    names = {one.name for one in TASKS["swiglu"].group(Group.TIMING)}
    for one in timing.facts.cases:
        assert one.case.name in names and isinstance(one.time, ModelledTime)
        assert one.time.us > 20 and "carried over" in one.notes[-1]  # far more than the launch of a small case


def test_a_winner_is_checked_as_usual_and_its_score_stands_beside_the_sketches() -> None:
    from warpsmith.records import score

    sketch, whole = graded("sketch"), graded("thorough")
    checked = whole.result("check")
    assert checked is not None and isinstance(checked.facts, CheckFacts)
    assert any(one.case.group is Group.HELDOUT for one in checked.facts.cases)
    one, other = score(sketch), score(whole)
    assert one is not None and other is not None and one.basis == other.basis
    assert other.value == pytest.approx(one.value, rel=0.02)
    assert sketch.key != whole.key

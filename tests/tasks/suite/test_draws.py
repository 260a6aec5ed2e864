"""Inputs of the suite come from a seed: the same bytes for the same seed, others for another, on every machine."""

import hashlib
import math

import pytest
import torch

from warpsmith.records import Dtype, Family, Group, Trial
from warpsmith.tasks.formats.own import OwnProgram
from warpsmith.tasks.inputs.heldout import heldout_cases
from warpsmith.tasks.inputs.values import tensors
from warpsmith.tasks.suite import folders, suite_folder, suite_program

GOLDEN = {
    "layernorm": "8d82f77074481d5a",
    "cross_entropy": "116feb099d8d6ac6",
    "rope": "e912792c5e169367",
    "resnet_block": "173416055e4bb625",
}


def digest(name: str, seed: int, family: Family = Family.NORMAL) -> str:
    """A short hash over the bytes of every argument of a task's first smoke case."""
    program = suite_program(name)
    case = program.task.group(Group.SMOKE)[0]
    total = hashlib.sha256()
    for part in tensors(program.arguments(Trial(case=case, family=family, seed=seed))):
        total.update(part.contiguous().view(torch.uint8).numpy().tobytes())
    return total.hexdigest()[:16]


@pytest.mark.parametrize("name", folders())
def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(name: str) -> None:
    assert digest(name, 5) == digest(name, 5)
    assert digest(name, 5) != digest(name, 6)
    assert digest(name, 5) != digest(name, 5, Family.UNIFORM)


@pytest.mark.parametrize(("name", "known"), GOLDEN.items())
def test_bytes_are_those_recorded(name: str, known: str) -> None:
    assert digest(name, 7) == known


def test_rope_tables_are_cosine_and_sine() -> None:
    rope = OwnProgram(suite_folder("rope"))._module
    for first, base in ((0, 10000.0), (4095, 1000000.0)):
        cos, sin = rope.tables(torch.tensor([first]), 8192, rope._frequencies(64, base))
        for row, pair in ((0, 0), (1, 0), (17, 3), (1021, 63), (4095, 1), (8191, 0), (8191, 40)):
            angle = (first + row) * base ** (-pair / 64)
            assert float(cos[row, pair]) == pytest.approx(math.cos(angle), abs=1e-11)
            assert float(sin[row, pair]) == pytest.approx(math.sin(angle), abs=1e-11)


def test_rope_tables_are_others_from_draw_to_draw() -> None:
    program = suite_program("rope")
    case = program.task.group(Group.SMOKE)[0]
    seen = [tensors(program.arguments(Trial(case=case, seed=seed)))[2][0] for seed in range(8)]
    assert not any(torch.equal(one, other) for place, one in enumerate(seen) for other in seen[:place])


@pytest.mark.parametrize("name", ["group_norm_silu", "layernorm", "llama_rmsnorm", "resnet_block"])
def test_eps_is_another_from_case_to_case_and_the_same_in_every_draw_of_one(name: str) -> None:
    program = suite_program(name)
    wide = [case for case in program.task.group(Group.SMOKE) if case.dtype is Dtype.FLOAT32]
    seen = [{program.arguments(Trial(case=case, seed=seed))[-1] for seed in range(5)} for case in wide]
    assert all(len(one) == 1 for one in seen)
    assert {1e-3} in seen and len(set.union(*seen)) > 1
    drawn = [case for seed in range(20) for case in heldout_cases(program.task, seed)]
    assert {case.pick((1e-6, 1e-5, 1e-3)) for case in drawn} == {1e-6, 1e-5, 1e-3}


def test_some_rows_of_logits_have_one_that_stands_out() -> None:
    program = suite_program("cross_entropy")
    case = program.task.group(Group.SMOKE)[1].model_copy(update={"axes": {"rows": 400, "classes": 1013}})
    logits = tensors(program.arguments(Trial(case=case, seed=1)))[0]
    top = logits.topk(2, dim=-1).values
    assert 60 < int((top[:, 0] - top[:, 1] > 10).sum()) < 140


def test_shifted_rows_overflow_a_softmax_without_the_maximum() -> None:
    program = suite_program("softmax")
    case = next(case for case in program.task.group(Group.SMOKE) if case.dtype is Dtype.FLOAT32)
    seen = [tensors(program.arguments(Trial(case=case, seed=seed)))[0].exp().sum(-1).max() for seed in range(4)]
    assert any(math.isinf(float(total)) for total in seen)

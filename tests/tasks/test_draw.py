"""Draws are the same for a seed everywhere, and each family is what it says."""

import hashlib
import math
import random
from contextlib import nullcontext

import pytest
import torch

from warpsmith.records import Case, Dtype, Family, Group, Init, Trial
from warpsmith.tasks.inputs import FAMILIES, OFFSET, computable
from warpsmith.tasks.inputs.draw import Draw, RandomWords, unrepeated
from warpsmith.tasks.reference.program import upstream

FITTING = [(family, dtype) for family in Family for dtype in Dtype if FAMILIES[family].fits(dtype)]
CASE = Case(name="c", group=Group.SMOKE, axes={}, dtype=Dtype.FLOAT32)


def draw(
    family: Family = Family.NORMAL, seed: int = 3, dtype: Dtype = Dtype.FLOAT32, init: Init = Init.DEFAULT
) -> Draw:
    return Draw(Trial(case=CASE.model_copy(update={"dtype": dtype}), family=family, seed=seed, init=init))


def fingerprint(tensor: torch.Tensor) -> str:
    return hashlib.sha256(tensor.contiguous().view(torch.uint8).numpy().tobytes()).hexdigest()[:16]


def test_the_same_seed_gives_the_same_bytes_everywhere() -> None:
    assert fingerprint(draw().input(17, 33)) == "5151a3f971741f32"
    assert fingerprint(draw(Family.NEAR_OVERFLOW, dtype=Dtype.BFLOAT16).input(17, 33)) == "09b3a93415faf004"


def test_another_seed_gives_other_numbers() -> None:
    assert not torch.equal(draw(seed=1).input(64), draw(seed=2).input(64))


@pytest.mark.parametrize(("family", "dtype"), FITTING)
def test_every_family_gives_finite_numbers_of_the_type(family: Family, dtype: Dtype) -> None:
    x = draw(family, dtype=dtype).input(6, 35)
    assert x.shape == (6, 35)
    assert str(x.dtype) == f"torch.{dtype}"
    assert torch.isfinite(computable(x)).all()
    assert x.double().abs().max() > 0


@pytest.mark.parametrize(("family", "dtype"), FITTING)
def test_what_nobody_makes_again_is_of_the_same_family(family: Family, dtype: Dtype) -> None:
    usual = draw(family, dtype=dtype).input(60, 350)
    secret = random.Random(5)
    with unrepeated(secret):
        x, other = draw(family, dtype=dtype).input(60, 350), draw(family, dtype=dtype).input(60, 350)
    assert (x.shape, x.dtype) == (usual.shape, usual.dtype) and torch.isfinite(computable(x)).all()
    assert not torch.equal(computable(x), computable(other)), "the trial's seed is not asked"
    same = [float((one.double().abs() > 0).double().mean()) for one in (x, usual)]
    assert same[0] == pytest.approx(same[1], abs=0.02)
    spread = [float(one.double().abs().mean()) for one in (x, usual)]
    one_number = family in (Family.CONSTANT, Family.OFFSET, Family.VAST)  # is drawn for all of them
    assert one_number or spread[0] == pytest.approx(spread[1], rel=0.1)
    assert torch.equal(computable(draw(family, dtype=dtype).input(60, 350)), computable(usual)), "and it is over"


@pytest.mark.parametrize(("family", "dtype"), FITTING)
def test_shapes_of_every_family_are_had_without_numbers(family: Family, dtype: Dtype) -> None:
    with torch.device("meta"):
        x = draw(family, dtype=dtype).input(6, 35)
    assert (x.shape, str(x.dtype), x.device.type) == ((6, 35), f"torch.{dtype}", "meta")


def test_the_generator_is_of_the_device_that_is_drawn_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Upstream gradients are drawn where results lie, and whoever draws them may have begun elsewhere."""
    made: list[str] = []

    def seen(device: torch.device, _seed: int) -> torch.Generator:
        made.append(device.type)
        return torch.Generator()

    monkeypatch.setattr("warpsmith.tasks.inputs.draw._generator", seen)
    with unrepeated(random.Random(1)):
        words = RandomWords(3)
        upstream((torch.zeros(3),), 1)
        with torch.device("meta"):
            assert words.generator is not None and words.generator is words.generator
        upstream((torch.zeros(3, device="meta"),), 1)
    assert made == ["cpu", "meta", "meta"]


@pytest.mark.parametrize("secret", [None, random.Random(3)])
def test_normal_has_mean_zero_and_variance_one(secret: random.Random | None) -> None:
    with unrepeated(secret) if secret else nullcontext():
        x = draw().normal(200_000)
    assert abs(float(x.mean())) < 0.01
    assert abs(float(x.var()) - 1) < 0.02


def test_normal_uses_the_whole_mantissa() -> None:
    bits = draw().input(4096).view(torch.int32) & 1
    assert 0.4 < float(bits.double().mean()) < 0.6


def test_families_are_what_they_say() -> None:
    assert (draw(Family.UNIFORM).input(1000) >= 0).all()
    assert 0.8 < float((draw(Family.SPARSE).input(2000) == 0).double().mean()) < 0.97
    assert draw(Family.CONSTANT).input(5, 5).unique().numel() == 1
    ordered = draw(Family.SORTED).input(4, 50)
    assert torch.equal(ordered, ordered.sort(-1).values)
    assert draw(Family.TIES).input(1000).unique().numel() < 40
    signs = draw(Family.ALTERNATING).input(3, 10).flatten().sign()
    assert (signs[0::2] >= 0).all()
    assert (signs[1::2] <= 0).all()
    assert ((draw(Family.ONE_HOT).input(9, 20) != 0).sum(-1) <= 1).all()
    assert float(draw(Family.NEAR_OVERFLOW, dtype=Dtype.FLOAT16).input(500).abs().min()) > 16000
    tiny = draw(Family.DENORMAL).input(500).abs()
    assert float(tiny.max()) < torch.finfo(torch.float32).tiny


def test_vast_is_past_either_end_of_float16_and_an_offset_is_far_from_zero_on_either_side() -> None:
    sizes = [float(draw(Family.VAST, seed).input(4096).double().square().mean().sqrt()) for seed in range(16)]
    assert {round(math.log2(size)) for size in sizes} == {20, -30}
    wide = [draw(Family.OFFSET, seed).input(4096).double() for seed in range(16)]
    assert all(0.75 * OFFSET - 5 < abs(float(one.mean())) < OFFSET + 5 for one in wide)
    assert {float(one.mean()) > 0 for one in wide} == {True, False}
    assert all(0.9 < float(one.std()) < 1.1 for one in wide)
    narrow = (Dtype.FLOAT16, Dtype.BFLOAT16)
    assert not any(FAMILIES[family].fits(dtype) for family in (Family.VAST, Family.OFFSET) for dtype in narrow)


def test_inits() -> None:
    assert torch.equal(draw(init=Init.FRESH).parameter(8, mean=1.0), torch.ones(8))
    assert float(draw(init=Init.WIDE).parameter(5000).std()) > 3
    assert (draw(init=Init.SIGNED).parameter(100, mean=1.0, std=0.1) < 0).any()
    assert (draw().parameter(100, mean=1.0, std=0.1) > 0).all()


def test_indices_stay_below_their_bound() -> None:
    found = draw().indices(7, 300)
    assert found.dtype == torch.int64
    assert set(found.tolist()) == set(range(7))


def test_empty_shapes_are_allowed() -> None:
    assert draw(Family.SORTED).input(0, 4).shape == (0, 4)


def test_words_are_those_of_splitmix64() -> None:
    """The generator's first outputs from state 0, as its authors' code prints them, less the top bit."""
    from warpsmith.tasks.inputs.draw import _signed

    words = RandomWords(0)
    words._start = _signed(0)
    known = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert words.take(3).tolist() == [word & ((1 << 63) - 1) for word in known]


def test_words_go_on_where_they_stopped() -> None:
    whole, parts = RandomWords(5), RandomWords(5)
    assert whole.take(7).tolist() == [*parts.take(3).tolist(), *parts.take(4).tolist()]
    assert RandomWords(5).take(4).tolist() != RandomWords(6).take(4).tolist()
    assert not set(RandomWords(5).take(100).tolist()) & set(RandomWords(6).take(100).tolist())


def test_every_family_has_a_row() -> None:
    assert set(FAMILIES) == set(Family)


@pytest.mark.parametrize("dtype", [dtype for dtype in Dtype if not dtype.floating])
def test_whole_numbers_take_both_signs_where_the_type_has_one(dtype: Dtype) -> None:
    x = draw(dtype=dtype).input(1000).long()
    signed = dtype not in (Dtype.UINT8, Dtype.BOOL)
    assert (float(x.min()) < 0) == signed and len(set(x.tolist())) == (2 if dtype is Dtype.BOOL else 64 + 64 * signed)


def test_eight_bit_floats_hold_neither_large_nor_tiny_inputs() -> None:
    refused = {family for family in Family if not FAMILIES[family].fits(Dtype.FLOAT8_E4M3FN)}
    assert refused == {Family.TINY, Family.HUGE, Family.NEAR_OVERFLOW, Family.VAST, Family.OFFSET}

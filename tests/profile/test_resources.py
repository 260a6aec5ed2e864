"""What the compiler knows, as a profile of its own and as part of another."""

import pytest

from warpsmith.profile.resources import enriched, kernels
from warpsmith.records import KernelProfile, KernelResources


def test_registers_limit_the_occupancy() -> None:
    (one,) = kernels([KernelResources(name="_Z1kPf", registers=128, spill_store_bytes=8, spill_load_bytes=16)])
    assert (one.name, one.limiter, one.spill_bytes) == ("k", "registers", 24)
    assert one.occupancy_limit == pytest.approx(2 * 256 / 2048)
    assert (one.time, one.place) == (None, None)


def test_shared_memory_limits_it_too() -> None:
    (one,) = kernels([KernelResources(name="k", registers=32, shared_bytes=100_000)])
    assert (one.limiter, one.occupancy_limit) == ("shared memory", 0.25)


def test_a_profile_learns_its_spills() -> None:
    seen = KernelProfile(name="k<float>", launches=1, registers=40)
    (one,) = enriched([seen], [KernelResources(name="_Z1kIfEvPT_", registers=99, spill_load_bytes=4)])
    assert (one.spill_bytes, one.registers) == (4, 40)
    assert enriched([seen], []) == (seen,)

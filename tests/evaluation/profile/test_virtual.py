"""Kernels built to be bound by a known resource, on the virtual GPU."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from bound_kernels import BoundKernel, bound_kernels

from warpsmith.evaluation.profile.virtual import NAMES, datasheet_ceilings, kernels, limiter, longest
from warpsmith.evaluation.profile.words import BOUNDS, meaning
from warpsmith.machines.virtual import LaunchRow, describe, modelled_cost
from warpsmith.machines.virtual.session import SETTINGS
from warpsmith.machines.worker import VirtualSandbox
from warpsmith.machines.worker.tensors import to_raw
from warpsmith.records import Binding, KernelProfile, ModelledTime

GPU = describe("H200")


def run(kernel: BoundKernel) -> KernelProfile:
    seen = VirtualSandbox(GPU, SETTINGS).run(kernel.artifact(), "forward", (to_raw(kernel.argument()),))
    assert seen.failure is None
    assert seen.facts is not None
    (profile,) = kernels(seen.facts.kernels, GPU)
    return profile


@pytest.mark.parametrize("kernel", list(bound_kernels("vgpu")), ids=lambda kernel: kernel.name)
def test_the_binding_resource_is_named(kernel: BoundKernel) -> None:
    found = run(kernel)
    assert found.place is not None
    assert found.place.binding is kernel.binding
    assert len(found.place.shown_by) == 3 and all(meaning(one) for one in found.place.shown_by)
    assert isinstance(found.time, ModelledTime)


def test_there_are_eight_of_them() -> None:
    assert len(list(bound_kernels("vgpu"))) == 8
    assert {kernel.binding for kernel in bound_kernels("cuda")} == set(Binding)


def test_counters_of_a_copy_are_those_of_a_hand() -> None:
    (kernel,) = (one for one in bound_kernels("vgpu") if one.name == "dram")
    found = run(kernel)
    assert found.dram_read_bytes == found.dram_written_bytes == 4 * kernel.elements
    assert found.sectors_per_request == 16  # 512 bytes a warp
    assert found.place is not None
    assert found.place.floor_us == pytest.approx(8 * kernel.elements / GPU.rates.copy_bytes_per_s * 1e6)


def test_every_bound_of_the_model_has_a_name_here() -> None:
    row = LaunchRow(kernel="k", launches=1, grid=(1, 1, 1), block=(32, 1, 1), blocks_per_sm=1)
    ours = {name for name in modelled_cost(row, GPU).bounds_us if not name.endswith("pipe")}
    assert ours - {"issue"} <= set(NAMES) and ours == set(BOUNDS)


def test_of_several_kernels_the_one_that_takes_most_of_the_call_is_the_longest() -> None:
    once = LaunchRow(kernel="once", launches=1, grid=(1, 1, 1), block=(32, 1, 1), blocks_per_sm=1)
    often = once.model_copy(update={"kernel": "often", "launches": 3})
    assert longest([once, often], GPU).name == "often"


def test_what_limits_the_occupancy() -> None:
    row = LaunchRow(kernel="k", launches=1, grid=(100_000, 1, 1), block=(256, 1, 1), blocks_per_sm=1, registers=32)
    assert limiter(row, GPU) == "threads"
    assert limiter(row.model_copy(update={"registers": 255}), GPU) == "registers"
    assert limiter(row.model_copy(update={"dynamic_shared": 200_000}), GPU) == "shared memory"
    assert limiter(row.model_copy(update={"grid": (3, 1, 1)}), GPU) == "the grid"


def test_a_datasheet_is_not_called_measured() -> None:
    assert datasheet_ceilings(GPU).measured is False

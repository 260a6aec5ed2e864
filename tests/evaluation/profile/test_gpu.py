"""Profiles on a real GPU: ceilings, ncu around the worker, what binds each kernel, CUPTI."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))

from bound_kernels import BoundKernel, bound_kernels, hand_kernel

from warpsmith.evaluation.profile.activity import activity
from warpsmith.evaluation.profile.ceilings import find_ceilings
from warpsmith.evaluation.profile.counted import kernels
from warpsmith.evaluation.profile.ncu import Counted, ProfiledKernel, Refusal, count
from warpsmith.languages.nvcc import Toolchain
from warpsmith.machines.cuda.profiled import Walls
from warpsmith.machines.hardware import gpus
from warpsmith.machines.hardware.leases import Need, lease
from warpsmith.machines.worker.tensors import to_raw
from warpsmith.records import Ceilings, KernelProfile

pytestmark = [pytest.mark.gpu, pytest.mark.leases]
ELEMENTS, SIDE = 1 << 26, 2048


@pytest.fixture(scope="module")
def ceilings() -> Ceilings:
    with lease(Need.ALONE):
        return find_ceilings(gpus()[0], Toolchain.find())


def subject(kernel: BoundKernel, x: torch.Tensor) -> ProfiledKernel:
    return ProfiledKernel(kernel.artifact(), kernel.source, "forward", (to_raw(x),), Toolchain.find().runtime.parent)


def profiled(one: ProfiledKernel, ceilings: Ceilings) -> KernelProfile:
    """For whoever has the GPU alone: whatever is counted is this test's. The subject was compiled before."""
    found = count(one, (Walls.FULL, Walls.OWN, Walls.OPEN))
    assert isinstance(found, Counted), found.why
    (profile,) = kernels(found.launches, found.lines, ceilings)
    return profile


def test_ceilings_are_those_of_a_gpu(ceilings: Ceilings) -> None:
    assert ceilings.measured
    assert 1e11 < ceilings.copy_bytes_per_s < 1e13
    assert ceilings.l2_bytes_per_s is not None
    assert ceilings.l2_bytes_per_s > ceilings.read_bytes_per_s
    assert ceilings.matmul_flops_per_s["bfloat16"] > ceilings.matmul_flops_per_s["float32"]


@pytest.mark.parametrize("kernel", list(bound_kernels("cuda")), ids=lambda kernel: kernel.name)
def test_the_binding_resource_is_named(kernel: BoundKernel, ceilings: Ceilings) -> None:
    one = subject(kernel, kernel.argument())
    with lease(Need.ALONE):
        found = profiled(one, ceilings)
    assert found.place is not None
    assert found.place.binding is kernel.binding, found.place


def test_a_profile_names_the_line_that_binds(ceilings: Ceilings) -> None:
    (kernel,) = (one for one in bound_kernels("cuda") if one.name == "dram")
    one = subject(kernel, kernel.argument())
    with lease(Need.ALONE):
        found = profiled(one, ceilings)
    assert found.lines
    assert found.lines[0].place.file == "kernel.cu"


@pytest.mark.parametrize("name", ["copy", "reduction", "matmul"])
def test_the_fraction_agrees_with_a_hand_within_a_tenth(name: str, ceilings: Ceilings) -> None:
    x = torch.rand(SIDE, SIDE) if name == "matmul" else torch.rand(ELEMENTS)
    one = subject(hand_kernel(name), x)
    with lease(Need.ALONE):
        found = profiled(one, ceilings)
    assert found.time is not None
    rates = {
        "copy": 8.0 * ELEMENTS / ceilings.copy_bytes_per_s,
        "reduction": 4.0 * ELEMENTS / ceilings.read_bytes_per_s,
        "matmul": 2.0 * SIDE**3 / ceilings.matmul_flops_per_s["float32"],
    }
    assert found.place is not None
    assert found.place.fraction == pytest.approx(rates[name] / (found.time.us * 1e-6), rel=0.10)


def test_cupti_sees_the_same_kernel(ceilings: Ceilings) -> None:
    (kernel,) = (one for one in bound_kernels("cuda") if one.name == "issue")
    one = subject(kernel, kernel.argument())
    with lease(Need.ALONE):
        seen = activity(one, Toolchain.find())
        assert not isinstance(seen, Refusal), seen.why
        counted = profiled(one, ceilings)
    (active,) = seen
    assert active.name == counted.name
    assert active.time is not None
    assert counted.time is not None
    assert active.time.us == pytest.approx(counted.time.us, rel=0.10)

"""The correct kernels on a real GPU: right there too, and the same as on the virtual one, bit for bit where exact."""

import pytest
from corpus import Sample, agreement, modules, samples, source
from runs import artifact, observe, tensors

from warpsmith.languages.nvcc import Toolchain
from warpsmith.machines.hardware import gpus
from warpsmith.machines.hardware.leases import Need, lease
from warpsmith.machines.worker import CudaSandbox

pytestmark = [pytest.mark.gpu, pytest.mark.leases]

HOPPER = "9.0"  # what the corpora are compiled for, and what the virtual GPU models
CASES = [(module, sample) for module in modules() for sample in samples(module)]


@pytest.fixture(scope="module")
def cuda() -> CudaSandbox:
    """The first GPU of this machine, with the runtime of its toolchain."""
    found = gpus()
    if not found or found[0].capability != HOPPER:
        pytest.skip(f"the corpora are built for compute capability {HOPPER}; this machine has {found}")
    return CudaSandbox(Toolchain.find().runtime.parent)


@pytest.mark.parametrize(("module", "sample"), CASES, ids=[f"{module}-{sample.name}" for module, sample in CASES])
def test_the_gpu_and_the_virtual_gpu_agree(module: str, sample: Sample, cuda: CudaSandbox) -> None:
    artifact(source(module))  # compiled while others have the GPU
    with lease(Need.SHARED):
        real = observe(source(module), sample.entry, sample.arguments, cuda)
    assert real.failure is None
    assert sample.fault(tensors(real)) == ""
    modelled = observe(source(module), sample.entry, sample.arguments)
    assert modelled.failure is None
    assert agreement(sample, tensors(real), tensors(modelled)) == ""

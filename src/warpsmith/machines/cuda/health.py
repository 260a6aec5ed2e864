"""The check that a GPU still works after a candidate's fault."""

import torch

from warpsmith.base import MachineError
from warpsmith.machines.cuda.access import CUDA, GpuAccess
from warpsmith.records import Reason

FAULTS = (Reason.CRASH, Reason.LAUNCH_ERROR, Reason.TIME_LIMIT, Reason.MEMORY_LIMIT, Reason.BAD_ANSWER)
SLOW_US = 20_000.0  # a flush takes half a millisecond; somebody's endless kernel would hold it up for seconds
COUNT = 4096


def see_healthy(gpu: GpuAccess = CUDA) -> None:
    """Raise MachineError if the GPU does not work."""
    # A CUDA error such as an illegal address is sticky for the context of the worker, not for ours. If
    # this process fails as well, the GPU itself is in a bad state, and every later verdict would blame an
    # innocent candidate.
    try:
        total = float(torch.arange(COUNT, device=gpu.torch_device, dtype=torch.float64).sum())
        gpu.flush()  # the first may wait for what the dead candidate left
        took = gpu.flush()
    except RuntimeError as error:
        raise MachineError(
            f"The GPU does not answer after a candidate's fault: {error}. Reset it: nvidia-smi -r."
        ) from None
    # The sum is exact in float64, so any other value is a wrong computation.
    if total != COUNT * (COUNT - 1) / 2:
        raise MachineError(f"The GPU sums the first {COUNT} numbers to {total:g} after a candidate's fault. Reset it.")
    if took > SLOW_US:
        raise MachineError(
            f"A flush took {took / 1e3:.0f} ms after a candidate's fault; something still runs on the GPU."
        )

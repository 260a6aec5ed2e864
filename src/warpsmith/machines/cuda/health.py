"""Whether the GPU is well after a candidate's fault, which dies with its process unless the device itself is gone."""

import torch

from warpsmith.base import MachineError
from warpsmith.machines.cuda.flush import flush
from warpsmith.records import Reason

FAULTS = (Reason.CRASH, Reason.LAUNCH_ERROR, Reason.TIME_LIMIT, Reason.MEMORY_LIMIT, Reason.BAD_ANSWER)
SLOW_US = 20_000.0  # a flush takes half a millisecond; somebody's endless kernel would hold it up for seconds
COUNT = 4096


def see_healthy() -> None:
    """A small sum and a flush in the judge's own context, or a `MachineError`: its numbers would be worth nothing."""
    try:
        total = float(torch.arange(COUNT, device="cuda", dtype=torch.float64).sum())
        flush()  # the first may wait for what the dead candidate left
        took = flush()
    except RuntimeError as error:
        raise MachineError(
            f"The GPU does not answer after a candidate's fault: {error}. Reset it: nvidia-smi -r."
        ) from None
    if total != COUNT * (COUNT - 1) / 2:
        raise MachineError(f"The GPU sums the first {COUNT} numbers to {total:g} after a candidate's fault. Reset it.")
    if took > SLOW_US:
        raise MachineError(
            f"A flush took {took / 1e3:.0f} ms after a candidate's fault; something still runs on the GPU."
        )

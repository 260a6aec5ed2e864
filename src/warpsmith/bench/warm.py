"""What the first stage on a GPU would wait for, done beside the compiler: the device opened, slow modules loaded."""

from warpsmith.base import HarnessError, MachineError
from warpsmith.bench.lease import Need, lease
from warpsmith.records import Direction, Trial
from warpsmith.tasks.find import open_task

TASK = "softmax"  # any of ours


def warm() -> None:
    """Both take seconds; while the device is opened others may use it, but nobody is timed."""
    try:
        from warpsmith.tasks.fresh import outline

        opened = open_task(TASK)
        first = opened.describe().cases[0]
        outline(opened, Direction.FORWARD, Trial(case=first))  # shapes alone load eight hundred modules
        with lease(Need.SHARED):
            open_device()
    except (RuntimeError, AssertionError, HarnessError, MachineError):
        return  # the stage that needs the GPU will tell


def open_device() -> None:
    """Make the context that everything else on the GPU needs."""
    import torch

    torch.zeros(1, device="cuda")

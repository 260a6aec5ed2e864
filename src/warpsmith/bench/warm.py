"""What the first stage on a GPU would wait for, done beside the compiler: slow modules loaded, the device opened."""

from warpsmith.base import HarnessError, MachineError
from warpsmith.bench.lease import Need, lease
from warpsmith.records import Direction, Trial
from warpsmith.tasks.find import open_task

TASK = "softmax"  # any of ours
FAULTS = (ImportError, RuntimeError, AssertionError, HarnessError, MachineError)  # the stage that needs it will tell


def load() -> None:
    """The modules of the stages, and those that torch loads for shapes alone: eight hundred. No GPU is touched."""
    try:
        import warpsmith.check.run
        import warpsmith.sandbox.player
        import warpsmith.timing.stage  # noqa: F401 - for the stages
        from warpsmith.tasks.fresh import outline

        opened = open_task(TASK)
        first = opened.describe().cases[0]
        outline(opened, Direction.FORWARD, Trial(case=first))
    except FAULTS:
        return


def open_early() -> None:
    """Open the device while others may use it, but nobody is timed."""
    try:
        with lease(Need.SHARED):
            open_device()
    except FAULTS:
        return


def open_device() -> None:
    """Make the context that everything else on the GPU needs."""
    import torch

    torch.zeros(1, device="cuda")

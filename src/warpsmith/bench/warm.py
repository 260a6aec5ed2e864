"""What the first stage on a GPU would wait for, done beside the compiler: the device opened, slow modules loaded."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

from warpsmith.base import HarnessError, MachineError
from warpsmith.bench.lease import Need, lease
from warpsmith.records import Direction, Trial
from warpsmith.tasks.find import open_task
from warpsmith.tasks.fresh import outline

TASK = "softmax"  # any of ours


def warm() -> None:
    """Both take seconds; while the device is opened others may use it, but nobody is timed."""
    opened = open_task(TASK)
    outline(
        opened, Direction.FORWARD, Trial(case=opened.describe().cases[0])
    )  # shapes alone load eight hundred modules
    with lease(Need.SHARED):
        open_device()


def open_device() -> None:
    """Make the context that everything else on the GPU needs."""
    import torch

    torch.zeros(1, device="cuda")


@contextmanager
def warming() -> Iterator[None]:
    """The same beside what is done here, which does not end before it: inside torch it would abort the process."""
    thread = Thread(target=_try)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def _try() -> None:
    try:
        warm()
    except (RuntimeError, AssertionError, HarnessError, MachineError):
        return  # the stage that needs the GPU will tell

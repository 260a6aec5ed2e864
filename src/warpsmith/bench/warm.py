"""What the first stage on a GPU would wait for, done beside the compiler: the device opened, slow modules loaded."""

from functools import cache
from threading import Thread

from warpsmith.bench.lease import Need, lease
from warpsmith.records import Direction, Trial
from warpsmith.tasks.find import open_task
from warpsmith.tasks.fresh import outline

TASK = "softmax"  # any of ours


def warm() -> None:
    """Both take seconds; while the device is opened others may use it, but nobody is timed."""
    import torch

    opened = open_task(TASK)
    outline(
        opened, Direction.FORWARD, Trial(case=opened.describe().cases[0])
    )  # shapes alone load eight hundred modules
    with lease(Need.SHARED):
        torch.zeros(1, device="cuda")


@cache
def begin_warming() -> Thread:
    """Once a process, beside whatever it does; should it fail, the stage that needs the GPU will tell."""
    thread = Thread(target=_quietly, daemon=True)
    thread.start()
    return thread


def _quietly() -> None:
    try:
        warm()
    except Exception:  # noqa: BLE001 - told by the stage that needs it
        return

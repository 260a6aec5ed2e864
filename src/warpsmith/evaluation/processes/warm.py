"""What the first stages on a GPU would wait for, done beside the compiler: slow modules loaded, the device opened."""

from contextlib import suppress
from threading import Event, Thread

from warpsmith.machines.hardware import Need
from warpsmith.machines.hardware.lease import lease
from warpsmith.records import Direction, Trial
from warpsmith.tasks.host import LocalTask, open_task

LEFT_ALONE = suppress(Exception)  # whatever it is, the stage that needs it will tell
TASKS = ("softmax", "linear")  # ours, small: one that sums and one that multiplies


def load() -> None:
    """The modules of the stages, and torch. No GPU is touched."""
    with LEFT_ALONE:
        import warpsmith.evaluation.check.run
        import warpsmith.evaluation.timing.stage
        import warpsmith.machines.cuda.player  # noqa: F401 - for the stages


def get_ready() -> None:
    """What torch loads for shapes alone, eight hundred modules; beside it the device is opened, which takes as long."""
    loaded = Event()  # two threads that load the same modules could each have the half of them
    Thread(target=open_early, args=[loaded], daemon=True).start()
    with LEFT_ALONE:
        from warpsmith.tasks.reference import outline

        opened = open_task(TASKS[0])
        outline(opened, Direction.FORWARD, Trial(case=opened.describe().cases[0]))
    loaded.set()


def open_early(loaded: Event) -> None:
    """Open the device while others may use it, but nobody is timed, and let torch load the kernels of a check."""
    with LEFT_ALONE:
        with lease(Need.SHARED):
            open_device()
        loaded.wait()
        with lease(Need.SHARED):
            rehearse("cuda")


def open_device() -> None:
    """Make the context that everything else on the GPU needs."""
    import torch

    torch.zeros(1, device="cuda")


def rehearse(device: str) -> None:
    """Small problems drawn, solved and compared: each kernel of torch's is loaded when it is first asked for."""
    from warpsmith.evaluation.check import look
    from warpsmith.machines.worker import Shown
    from warpsmith.tasks.reference import problem

    for name in TASKS:
        opened = open_task(name)
        task = opened.describe()
        trial = Trial(case=task.cases[0])
        assert isinstance(opened, LocalTask)
        for direction in task.directions:
            call = problem(opened.program, direction, trial, device)
            look(Shown(None, call.native), call, task, direction, trial)

"""What the first stages on a GPU would wait for, done beside the compiler: slow modules loaded, the device opened."""

from collections.abc import Callable
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


def get_ready(load_shapes: Callable[[], None] | None = None, open_early: Callable[[Event], None] | None = None) -> None:
    """What torch loads for shapes alone, eight hundred modules; beside it the device is opened, which takes as long."""
    loaded = Event()  # two threads that load the same modules could each have the half of them
    Thread(target=open_early or prepare_device, args=[loaded], daemon=True).start()
    with LEFT_ALONE:
        (load_shapes or outline_task)()
    loaded.set()


def outline_task() -> None:
    """Run a small task on shapes alone, so that torch loads its modules for that."""
    from warpsmith.tasks.reference import outline

    opened = open_task(TASKS[0])
    outline(opened, Direction.FORWARD, Trial(case=opened.describe().cases[0]))


def prepare_device(
    loaded: Event,
    open_device: Callable[[], None] | None = None,
    rehearse_on: Callable[[str], object] | None = None,
) -> None:
    """Open the device while others may use it, but nobody is timed, and let torch load the kernels of a check."""
    with LEFT_ALONE:
        with lease(Need.SHARED):
            (open_device or make_context)()
        loaded.wait()
        with lease(Need.SHARED):
            (rehearse_on or rehearse)("cuda")


def make_context() -> None:
    """Make the context that everything else on the GPU needs."""
    import torch

    torch.zeros(1, device="cuda")


def rehearse(device: str) -> list[tuple[str, Direction]]:
    """Small problems drawn, solved and compared: each kernel of torch's is loaded when it is first asked for.

    Return the tasks and directions that were compared.
    """
    from warpsmith.evaluation.check import look
    from warpsmith.machines.worker import Shown
    from warpsmith.tasks.reference import problem

    done = []
    for name in TASKS:
        opened = open_task(name)
        task = opened.describe()
        trial = Trial(case=task.cases[0])
        assert isinstance(opened, LocalTask)
        for direction in task.directions:
            call = problem(opened.program, direction, trial, device)
            look(Shown(None, call.native), call, task, direction, trial)
            done.append((task.name, direction))
    return done

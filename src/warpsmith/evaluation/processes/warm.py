"""Early loading of modules and of the GPU's context."""

from collections.abc import Callable
from contextlib import suppress
from threading import Event, Thread

from warpsmith.machines.hardware import Need, lease
from warpsmith.records import Direction, Trial
from warpsmith.tasks.host import LocalTask, open_task

LEFT_ALONE = suppress(Exception)  # the stage that needs the module or device will report the error
TASKS = ("softmax", "linear")  # small tasks of the suite: one sums, one multiplies


def load() -> None:
    """Import torch and the stages' modules; open no GPU."""
    # Called before the fork: an opened CUDA driver would make every child useless.
    with LEFT_ALONE:
        import warpsmith.evaluation.check.run
        import warpsmith.evaluation.timing.stage
        import warpsmith.machines.cuda.player  # noqa: F401 - for the stages


def get_ready(load_shapes: Callable[[], None] | None = None, open_early: Callable[[Event], None] | None = None) -> None:
    """Load modules and open the device side by side."""
    # `loaded` keeps the two threads from importing the same modules at the same time, where each could
    # see the other's half-loaded module.
    loaded = Event()  # two threads that import the same modules could each see them half loaded
    Thread(target=open_early or prepare_device, args=[loaded], daemon=True).start()
    with LEFT_ALONE:
        (load_shapes or outline_task)()
    loaded.set()


def outline_task() -> None:
    """Load torch's modules for shapes by running a task."""
    from warpsmith.tasks.reference import outline

    opened = open_task(TASKS[0])
    outline(opened, Direction.FORWARD, Trial(case=opened.describe().cases[0]))


def prepare_device(
    loaded: Event,
    open_device: Callable[[], None] | None = None,
    rehearse_on: Callable[[str], object] | None = None,
) -> None:
    """Open the device and load kernels under shared leases."""
    # A shared lease, because creating a context and loading kernels would disturb a kernel that another
    # process times.
    with LEFT_ALONE:
        with lease(Need.SHARED):
            (open_device or make_context)()
        loaded.wait()
        with lease(Need.SHARED):
            (rehearse_on or rehearse)("cuda")


def make_context() -> None:
    """Create the CUDA context of this process."""
    import torch

    torch.zeros(1, device="cuda")


def rehearse(device: str) -> list[tuple[str, Direction]]:
    """Solve small problems once; return the tasks and directions."""
    # torch loads each of its GPU kernels at the first use, which takes milliseconds; the first check of a
    # batch should not pay for them.
    from warpsmith.evaluation.check import check_call
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
            check_call(Shown(None, call.native), call, task, direction, trial)
            done.append((task.name, direction))
    return done

"""Leases of the GPU: a clock needs it alone, a check shares it with other checks. Files hold them: a kill frees."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from enum import StrEnum

from warpsmith.base import Home, locked, one_of

# At once: a GPU serves the processes that share it in turn, so that more of them only wait for each other, and a clock
# for all of them. But one begins its process while another computes, and one that hangs shall not stop the others.
CHECKS = 2


class Need(StrEnum):
    """How a stage needs the GPU."""

    NONE = "none"
    SHARED = "shared"  # with other checks, but not while somebody is timed
    ALONE = "alone"


@contextmanager
def lease(need: Need) -> Iterator[None]:
    """The GPU as it is needed, among threads and processes.

    Whoever wants it, for either use, first passes the door: a clock that waits closes it, so that a stream of checks
    cannot keep it waiting for ever.
    """
    if need is Need.NONE:
        with nullcontext():
            yield
        return
    folder = Home.here().data / "leases"
    shared = need is Need.SHARED
    places = [folder / f"gpu-0.check-{number}" for number in range(CHECKS)]
    with one_of(places) if shared else nullcontext():
        with locked(folder / "gpu-0.door"):
            use = locked(folder / "gpu-0.lock", shared=shared)
            use.__enter__()
        try:
            yield
        finally:
            use.__exit__(None, None, None)

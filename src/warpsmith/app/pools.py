"""The resident pool of this user: start, state and end."""

import os

from warpsmith import pool
from warpsmith.base import MachineError
from warpsmith.pool import PoolClient, PoolStatus
from warpsmith.records import Model

USUAL_EVALUATORS = min(os.cpu_count() or 1, 8)  # on a GPU each has a context with the kernels that torch loads
USUAL_IDLE_MINUTES = 30.0


class PoolReport(Model):
    """The state of this user's pool, if one runs."""

    is_running: bool
    socket: str
    refused: str = ""  # why commands of this shell do not use the pool
    status: PoolStatus | None = None


def pool_status() -> PoolReport:
    """Return the state of the pool, and whether commands with these variables use it."""
    path = pool.socket_path()
    client = PoolClient(path)
    try:
        return PoolReport(is_running=True, socket=str(path), refused=client.refusal(), status=client.status())
    except OSError:  # no socket, the file that a killed pool left, or a pool that ends at this moment
        return PoolReport(is_running=False, socket=str(path))


def start_pool(evaluators: int | None = None, idle_minutes: float = USUAL_IDLE_MINUTES) -> PoolReport:
    """Start a pool, or return the state of the one that runs. Raise MachineError if that one refuses this process."""
    found = pool_status()
    if found.refused:
        raise MachineError(f"A pool runs that cannot be used: {found.refused}. `warpsmith pool stop` ends it.")
    status = found.status or pool.start_pool(evaluators or USUAL_EVALUATORS, idle_minutes)
    return PoolReport(is_running=True, socket=found.socket, status=status)


def stop_pool() -> PoolReport:
    """End the pool, and return its last state."""
    path = str(pool.socket_path())
    return PoolReport(is_running=False, socket=path, status=pool.stop_pool())

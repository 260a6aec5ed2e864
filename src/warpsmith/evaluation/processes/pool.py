"""A thread pool for threads that exchange short messages with other processes."""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

SWITCH_S = 0.0005


@contextmanager
def pool(jobs: int) -> Iterator[ThreadPoolExecutor]:
    """Yield a thread pool with a short switch interval."""
    # Each thread exchanges short messages with other processes. At Python's usual 5 ms a thread that
    # computes delays every answer of the other threads by that time.
    usual = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    try:
        with ThreadPoolExecutor(max(1, jobs)) as made:
            yield made
    finally:
        sys.setswitchinterval(usual)

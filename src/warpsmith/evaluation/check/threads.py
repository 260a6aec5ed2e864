"""The number of torch's own threads while candidates are checked."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

import torch

_lock = Lock()
_usual: list[int] = []  # how many there were, once for each judge that is at work


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch compute with the calling thread alone.

    The tensors of a virtual run are small, and many candidates are evaluated at once: threads that waited for
    each other at every operation took six times the processor time and three times as long.
    """
    with _lock:
        _usual.append(_usual[0] if _usual else torch.get_num_threads())
    torch.set_num_threads(1)
    try:
        yield
    finally:
        with _lock:
            torch.set_num_threads(_usual.pop())

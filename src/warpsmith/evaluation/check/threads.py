"""Torch's own threads, which are let go while candidates are judged."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

import torch

_lock = Lock()
_usual: list[int] = []  # how many there were, once for each judge that is at work


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch computes with the calling thread alone.

    The tensors of a virtual run are small, and many candidates are judged at once: threads that wait for one another at
    every operation took six times the processor and three times as long.
    """
    with _lock:
        _usual.append(_usual[0] if _usual else torch.get_num_threads())
    torch.set_num_threads(1)
    try:
        yield
    finally:
        with _lock:
            torch.set_num_threads(_usual.pop())

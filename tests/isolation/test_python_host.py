"""The loop of a program that answers requests in frames, over plain pipes; both confined hosts use it."""

import os
from collections.abc import Iterator
from contextlib import suppress

import pytest

from warpsmith.isolation import Frame, FrameError, FrameReader, FrameWriter, answer_requests

LIMIT_BYTES, SECONDS = 1 << 16, 10.0


@pytest.fixture
def pipes() -> Iterator[tuple[int, int, int, int]]:
    requests, asking = os.pipe()
    answering, answers = os.pipe()
    yield requests, asking, answering, answers
    for fd in (requests, asking, answering, answers):
        with suppress(OSError):
            os.close(fd)


def run(pipes: tuple[int, int, int, int], *requests: Frame, forks: bool = False) -> list[Frame]:
    """Return the answers to requests that all wait in the pipe, which is closed after them."""
    reading, asking, answering, writing = pipes
    for request in requests:
        FrameWriter(asking).write(request, SECONDS)
    os.close(asking)

    def answer(frame: Frame) -> Frame:
        if forks and os.fork() == 0:
            return Frame(99, b"from the copy")
        return Frame(frame.kind + 1, frame.payload.upper())

    own = os.getpid()
    answer_requests(FrameReader(reading), FrameWriter(writing), answer, SECONDS, LIMIT_BYTES, SECONDS)
    if os.getpid() != own:
        os._exit(0)
    if forks:
        os.wait()
    os.close(writing)
    found, reader = [], FrameReader(answering)
    while isinstance(frame := reader.read(SECONDS), Frame):
        found.append(frame)
    return found


def test_requests_are_answered_in_order_until_the_caller_closes(pipes: tuple[int, int, int, int]) -> None:
    assert run(pipes, Frame(1, b"a"), Frame(5, b"b")) == [Frame(2, b"A"), Frame(6, b"B")]


def test_a_copy_that_foreign_code_forked_writes_no_answer(pipes: tuple[int, int, int, int]) -> None:
    assert run(pipes, Frame(1, b"a"), forks=True) == [Frame(2, b"A")]


def test_a_request_beyond_the_limit_ends_the_loop(pipes: tuple[int, int, int, int]) -> None:
    requests = FrameReader(pipes[0])
    os.write(pipes[1], b"x" * 64)
    answer_requests(requests, FrameWriter(pipes[3]), lambda frame: frame, SECONDS, LIMIT_BYTES, SECONDS)
    os.close(pipes[3])
    assert isinstance(FrameReader(pipes[2]).read(SECONDS), FrameError)

"""Both ends of a confined Python request server."""

import os
import sys
from collections.abc import Callable

from warpsmith.isolation.child import Child, spawn
from warpsmith.isolation.frames import LIMIT_BYTES, Frame, FrameError, FrameReader, FrameWriter
from warpsmith.isolation.policy import Policy

REQUESTS_FD, ANSWERS_FD = 3, 4
HIGH_FD = 200  # out of the way of foreign code that closes or prints to small descriptors
SHOWN_STDERR_BYTES = 500

Answer = Callable[[Frame], Frame]


class PythonHost:
    """A confined Python module that answers frames."""

    def __init__(self, module: str, policy: Policy, *arguments: str) -> None:
        # -P: a file in the child's working folder must not stand for one of our modules.
        self.child: Child = spawn([sys.executable, "-P", "-m", module, *arguments], policy)

    def request(
        self, frame: Frame, timeout_s: float, kind: int | None = None, limit_bytes: int = LIMIT_BYTES
    ) -> Frame | FrameError:
        """Send a frame; return the answer or its error."""
        return self.child.send(frame) or self.child.receive(timeout_s, kind, limit_bytes)

    def kill(self) -> str:
        """End the child; return its outcome and last errors."""
        self.child.kill()
        outcome = self.child.wait()
        last = outcome.stderr.decode(errors="replace")[-SHOWN_STDERR_BYTES:]
        return f"{outcome.describe(self.child.policy)}; {last}"

    def close(self) -> None:
        """End the child and everything it started."""
        self.child.__exit__(None, None, None)


def take_channel() -> tuple[FrameReader, FrameWriter]:
    """Move the descriptors of requests and answers to 200 and 201; return their reader and writer.

    Not inheritable: a process that foreign code starts must not hold the channel open.
    """
    moved = [os.dup2(fd, HIGH_FD + place, inheritable=False) for place, fd in enumerate((REQUESTS_FD, ANSWERS_FD))]
    os.close(REQUESTS_FD)
    os.close(ANSWERS_FD)
    return FrameReader(moved[0]), FrameWriter(moved[1])


def answer_requests(
    requests: FrameReader, answers: FrameWriter, answer: Answer, idle_s: float, limit_bytes: int, write_s: float
) -> None:
    """Answer requests until end of input or `idle_s` seconds."""
    own = os.getpid()
    while not isinstance(frame := requests.read(idle_s, limit_bytes), FrameError):
        reply = answer(frame)
        if os.getpid() != own:  # foreign code forked: a second answer would damage the stream of frames
            return
        if answers.write(reply, write_s) is not None:
            return

"""The watch over a worker's device memory, with counters that are given."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from warpsmith.isolation.child import list_descendants
from warpsmith.machines.cuda.watch import LITTLE, SHARE, MemoryWatch
from warpsmith.machines.hardware import MemoryUse

TOTAL = 128 << 30
WORKER, NEIGHBOUR = 7, 8


@dataclass
class Scene:
    """A watch, the counters that it will see, and how often it ended its worker."""

    uses: list[MemoryUse | None]
    is_alone: bool = False
    own_bytes: int = 0
    ended: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.watch = MemoryWatch(
            lambda: self.uses[0],
            lambda: frozenset({WORKER, 70}),
            lambda: self.ended.append(1),
            self.is_alone,
            lambda: self.own_bytes,
        )

    def later(self, *uses: MemoryUse | None) -> MemoryWatch:
        for use in uses:
            self.uses[0] = use
            self.watch.look()
        return self.watch


def named(worker: int, neighbour: int = 0) -> MemoryUse:
    return MemoryUse(TOTAL - worker - neighbour, TOTAL, {WORKER: worker, NEIGHBOUR: neighbour})


def unnamed(used: int) -> MemoryUse:
    """As in a container that hides the processes of others."""
    return MemoryUse(TOTAL - used, TOTAL, {1: used})


def test_a_worker_is_ended_at_its_share() -> None:
    scene = Scene([named(1 << 30)])
    assert scene.later(named((1 << 30) + int(SHARE * TOTAL))).excess == "" and not scene.ended
    found = scene.later(named((2 << 30) + int(SHARE * TOTAL)))
    assert found.excess == "It took 9216 MiB of the GPU's memory; its share is 8192 MiB." and scene.ended == [1]
    scene.later(named(60 << 30))
    assert scene.ended == [1], "once"


def test_a_worker_is_not_ended_for_what_its_neighbour_takes() -> None:
    scene = Scene([named(1 << 30)])
    found = scene.later(named(1 << 30, TOTAL - (1 << 30)))
    assert not found.excess and not found.is_suspect and not scene.ended
    assert found.leaves_little, "and an allocation that fails now is no fault of its own"


def test_alone_the_fall_of_free_memory_is_the_worker_s() -> None:
    scene = Scene([unnamed(10 << 30)], is_alone=True)
    assert not scene.later(unnamed(12 << 30)).excess
    assert scene.later(unnamed(30 << 30)).excess and scene.ended == [1]


def test_what_the_evaluator_itself_took_is_not_the_worker_s() -> None:
    scene = Scene([unnamed(10 << 30)], is_alone=True)
    scene.own_bytes = 30 << 30
    assert not scene.later(unnamed(41 << 30)).excess and not scene.ended


def test_beside_others_nobody_is_accused_by_the_fall_of_free_memory() -> None:
    scene = Scene([unnamed(10 << 30)])
    assert not scene.later(unnamed(60 << 30)).is_suspect, "neighbours need memory, too"
    found = scene.later(unnamed(int(TOTAL * (1 - LITTLE / 2))))
    assert found.is_suspect and not found.excess and scene.ended == [1], "and the evaluation is repeated alone"


@pytest.mark.parametrize("uses", [[None, None], [named(1), None], [None, named(TOTAL)]])
def test_a_driver_that_does_not_answer_accuses_nobody(uses: Sequence[MemoryUse | None]) -> None:
    scene = Scene([uses[0]])
    found = scene.later(uses[1])
    assert not found.excess and not found.is_suspect


def test_the_thread_looks_until_it_is_closed() -> None:
    scene = Scene([named(0)])
    scene.uses[0] = named(TOTAL)
    with scene.watch as watch:
        while not watch.excess:
            pass
    assert scene.ended == [1] and not watch._thread.is_alive()


def test_all_that_comes_from_a_process_is_found() -> None:
    text = "import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE);"
    text += "print(p.pid, flush=True); input(); p.communicate(b'x')"
    with subprocess.Popen([sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as outer:
        assert outer.stdin is not None and outer.stdout is not None
        inner = int(outer.stdout.readline())
        found = list_descendants(outer.pid)
        outer.stdin.write(b"x\n")
        outer.stdin.close()
    assert found == {outer.pid, inner}

"""The share of a GPU's memory, rehearsed: a worker above it is ended, and its neighbours are not accused."""

from pathlib import Path

import pytest
import torch
from test_session import HEAD, TAIL, artifact

from warpsmith.base import DeviceMemoryError
from warpsmith.machines.cuda.room import room_for
from warpsmith.machines.cuda.session import CudaSession
from warpsmith.machines.hardware.leases import Need
from warpsmith.machines.rehearsed import RehearsedMachine
from warpsmith.machines.rehearsed.access import SETTINGS
from warpsmith.records import Direction, Failure, Reason

X = torch.arange(1000, dtype=torch.float32)
BODY = """int n = x.numel(); static bool is_first = true; void* more = nullptr;
  if (is_first) while (cudaMalloc(&more, 64 << 20) == cudaSuccess) {} is_first = false; cudaGetLastError();
  auto y = torch::empty_like(x);
  twice<<<(n + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), y.data_ptr<float>(), n, 0);
  return y;"""
GREEDY = f"{HEAD}torch::Tensor forward(torch::Tensor x) {{ {BODY} }}{TAIL}"
MODEST = GREEDY.replace("if (is_first) while", "if (false) while")


MACHINE = RehearsedMachine()


def session(made: Path, machine: RehearsedMachine = MACHINE) -> CudaSession:
    room = room_for((X,), (X,), machine.access.margins)
    return machine.session(made, Direction.FORWARD, room, 60.0, (0, 0, 0))


def called(source: str, machine: RehearsedMachine = MACHINE) -> Failure | None:
    """What a few calls of it come to; the watch has looked in between."""
    with session(artifact(source), machine) as opened:
        for _ in range(3):
            shown = opened.call((X,))
            if shown.failure is not None:
                return shown.failure
            assert opened._watch is not None
            opened._watch.look()
    return None


def test_a_worker_that_takes_all_memory_is_ended_at_its_share() -> None:
    with MACHINE.lease(Need.SHARED):
        failure = called(GREEDY)
        assert failure is not None and failure.reason is Reason.MEMORY_LIMIT
        assert f"its share is {SETTINGS.memory_bytes >> 24} MiB" in failure.detail


def test_one_that_takes_little_is_not() -> None:
    with MACHINE.lease(Need.SHARED):
        assert called(MODEST) is None


def test_where_processes_are_hidden_it_is_repeated_alone_and_then_ended() -> None:
    hiding = RehearsedMachine(names_processes=False)
    with hiding.lease(Need.SHARED), pytest.raises(DeviceMemoryError):
        called(GREEDY, hiding)
    with hiding.lease(Need.ALONE):
        failure = called(GREEDY, hiding)
    assert failure is not None and failure.reason is Reason.MEMORY_LIMIT


def test_a_neighbour_of_one_that_took_all_memory_is_not_ended() -> None:
    """The counters name the processes, and it goes on when the other has ended."""
    with MACHINE.lease(Need.SHARED), session(artifact(MODEST)) as neighbour:
        assert neighbour.call((X,)).failure is None
        with session(artifact(GREEDY)) as greedy:
            failure = None
            while failure is None:
                failure = greedy.call((X,)).failure
            assert failure.reason is Reason.MEMORY_LIMIT
        assert neighbour.call((X,)).failure is None

"""The line that a candidate has to the executor, spoken by hand: whatever is sent, the judge is answered or told."""

import socket
from collections.abc import Iterator

import pytest
from fuzz import wrapped

from warpsmith.machines.virtual import ExecutorSettings, Mute, VirtualGpu, describe
from warpsmith.machines.virtual.control import MAGIC, REPLY, REQUEST

LOAD, FUNCTION, UNKNOWN, LAUNCH, FACTS, ALLOW = 1, 3, 5, 40, 41, 42  # wire.h
STREAM, CAPTURE_BEGIN, CAPTURE_END, CAPTURE_STATE, DESTROY = 50, 70, 71, 72, 74
INVALID_VALUE, INVALIDATED = 1, 901  # errors of CUDA
PTX = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k()
{
  .shared .align 4 .b8 own[16];
  .reg .b32 %r<2>;
  mov.u32 %r1, 7;
  st.shared.u32 [own], %r1;
  ret;
}
"""


@pytest.fixture
def gpu() -> Iterator[VirtualGpu]:
    with VirtualGpu(describe("H200"), ExecutorSettings(answer_s=2.0)) as running:
        yield running


def ask(line: socket.socket, call: int, *words: int, data: bytes = b"") -> tuple[int, tuple[int, ...]]:
    """The error and the words of the reply."""
    line.sendall(REQUEST.pack(MAGIC, call, *words, *(0,) * (16 - len(words)), len(data)) + data)
    _, error, *rest = REPLY.unpack(line.recv(REPLY.size, socket.MSG_WAITALL))
    line.recv(rest[8], socket.MSG_WAITALL)
    return error, tuple(rest[:8])


def kernel(line: socket.socket) -> int:
    """A function that does nothing, from a fat binary with one text."""
    module = ask(line, LOAD, data=wrapped(PTX))[1][0]
    return ask(line, FUNCTION, module, data=b"k")[1][0]


def launch(line: socket.socket, function: int, blocks: int, shared: int = 0) -> int:
    return ask(line, LAUNCH, 0, function, blocks | 1 << 32, 1 | 32 << 32, 1 | 1 << 32, shared)[0]


def test_half_a_request_does_not_hold_the_judge(gpu: VirtualGpu) -> None:
    gpu.client.sendall(b"half")
    with pytest.raises(Mute, match="no answer in 2 s"):
        gpu.control.facts()


def test_a_name_of_megabytes_is_cut(gpu: VirtualGpu) -> None:
    ask(gpu.client, UNKNOWN, data=b"x" * (4 << 20))
    assert 1000 < len(gpu.control.facts().detail) < 1 << 16


def test_shared_memory_that_wraps_around_is_refused(gpu: VirtualGpu) -> None:
    function = kernel(gpu.client)
    own = ask(gpu.client, FACTS, function)[1][1]
    assert own > 0
    assert ask(gpu.client, ALLOW, function, (1 << 64) - own)[0] == INVALID_VALUE
    assert launch(gpu.client, function, 1, (1 << 64) - own) == INVALID_VALUE


def test_a_graph_that_is_destroyed_while_it_is_captured(gpu: VirtualGpu) -> None:
    stream = ask(gpu.client, STREAM, 1)[1][0]
    ask(gpu.client, CAPTURE_BEGIN, stream, 2)
    graph = ask(gpu.client, CAPTURE_STATE, stream)[1][1]
    assert ask(gpu.client, DESTROY, graph)[0] == 0
    assert ask(gpu.client, CAPTURE_END, stream)[0] == INVALIDATED
    assert gpu.control.answers()


def test_no_launch_is_left_out_however_many_shapes_there_are(gpu: VirtualGpu) -> None:
    function = kernel(gpu.client)
    for blocks in range(1, 601):
        assert launch(gpu.client, function, blocks) == 0
    rows = gpu.control.facts().kernels
    assert sum(row.launches for row in rows) == 600
    assert len(rows) < 600

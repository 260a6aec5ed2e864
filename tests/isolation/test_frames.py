"""Frames come back as they went, and junk never does more than make a fault."""

import os
import random
import struct
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from warpsmith.base.native import build_native
from warpsmith.isolation import Frame, FrameError, FrameFault, FrameReader, FrameWriter
from warpsmith.isolation.frames import HEAD, HEADER_BYTES, MAGIC, VERSION, encode
from warpsmith.isolation.launcher import NATIVE

PROGRAMS = Path(__file__).parent / "programs"


@contextmanager
def reader_of(raw: bytes) -> Iterator[FrameReader]:
    """A reader at a pipe that holds these bytes and then ends."""
    out, into = os.pipe()
    writer = threading.Thread(target=_write_all, args=(into, raw))
    writer.start()
    yield FrameReader(out)
    os.close(out)
    writer.join()


def _write_all(fd: int, raw: bytes) -> None:
    try:
        with os.fdopen(fd, "wb") as out:
            out.write(raw)
    except BrokenPipeError:
        return


@pytest.mark.parametrize("size", [0, 1, 19, 20, 4096, 65536, 3_000_001])
def test_a_frame_comes_back_as_it_went(size: int) -> None:
    frame = Frame(size % 65536, os.urandom(size))
    with reader_of(encode(frame) + encode(Frame(3))) as reader:
        assert reader.read(5.0) == frame
        assert reader.read(5.0) == Frame(3)
        assert reader.read(5.0) == FrameError(FrameFault.MISSING, "the other end closed without it")


def test_the_layout_is_fixed() -> None:
    raw = encode(Frame(0x0102, b"abc"))
    assert raw[:16] == bytes.fromhex("57534631 0100 0201 0300000000000000")
    assert struct.unpack("<I", raw[16:20])[0] == zlib.crc32(raw[:16] + b"abc")
    assert raw[20:] == b"abc"
    assert HEADER_BYTES == 20


@pytest.mark.parametrize("seed", range(200))
def test_a_damaged_frame_is_never_taken_for_another(seed: int) -> None:
    draw = random.Random(seed)
    frame = Frame(draw.randrange(65536), draw.randbytes(draw.randrange(100)))
    raw = bytearray(encode(frame))
    match draw.randrange(3):
        case 0:
            raw[draw.randrange(len(raw))] ^= 1 << draw.randrange(8)
        case 1:
            del raw[draw.randrange(len(raw)) :]
        case _:
            raw[:] = draw.randbytes(draw.randrange(1, 200))
    with reader_of(bytes(raw)) as reader:
        answer = reader.read(5.0, limit_bytes=1000)
    assert isinstance(answer, FrameError)
    assert answer.detail


def test_a_length_beyond_the_limit_allocates_nothing() -> None:
    with reader_of(HEAD.pack(MAGIC, VERSION, 1, 1 << 62) + bytes(4)) as reader:
        answer = reader.read(5.0, limit_bytes=1 << 20)
    assert isinstance(answer, FrameError)
    assert answer.fault is FrameFault.OVERSIZED
    assert str(1 << 62) in answer.detail and str(1 << 20) in answer.detail


@pytest.mark.parametrize("cut", [1, 19, 20, 25])
def test_a_frame_that_stops_is_late_and_one_that_ends_is_short(cut: int) -> None:
    raw = encode(Frame(1, b"0123456789"))[:cut]
    out, into = os.pipe()
    os.write(into, raw)
    late = FrameReader(out).read(0.02)
    os.close(into)
    os.close(out)
    with reader_of(raw) as reader:
        short = reader.read(5.0)
    assert isinstance(late, FrameError) and late.fault is FrameFault.LATE
    assert isinstance(short, FrameError) and short.fault is FrameFault.SHORT


def test_a_trickle_is_late_as_a_whole() -> None:
    out, into = os.pipe()
    stop = threading.Event()

    def trickle() -> None:
        for byte in encode(Frame(1, bytes(1000))):
            if stop.wait(0.01):
                return
            os.write(into, bytes([byte]))

    writer = threading.Thread(target=trickle)
    writer.start()
    answer = FrameReader(out).read(0.1)
    stop.set()
    writer.join()
    os.close(into)
    os.close(out)
    assert isinstance(answer, FrameError) and answer.fault is FrameFault.LATE


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 1_000_003])
def test_the_native_end_speaks_the_same_frames(size: int) -> None:
    out, into = os.pipe()
    back_out, back_into = os.pipe()
    program = build_native("frame_echo", [PROGRAMS / "frame_echo.cc"], includes=[NATIVE])
    pid = os.posix_spawn(
        program, [program], {}, file_actions=[(os.POSIX_SPAWN_DUP2, out, 0), (os.POSIX_SPAWN_DUP2, back_into, 1)]
    )
    os.close(out)
    os.close(back_into)
    frame = Frame(9, os.urandom(size))
    sender = threading.Thread(target=lambda: FrameWriter(into).write(frame, 10.0))
    sender.start()
    reader = FrameReader(back_out)
    assert reader.read(10.0) == Frame(10, frame.payload)
    sender.join()
    whole = encode(frame)
    os.write(into, whole[:-1] + bytes([whole[-1] ^ 0xFF]) if size else b"junk and more junk and junk")
    os.close(into)
    assert reader.read(10.0) in (Frame(99, b"checksum"), Frame(99, b"junk"))
    os.close(back_out)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

"""An executor without confinement, and mutants of what a candidate can send it. Knows no expectation."""

import os
import re
import socket
import struct
import subprocess
import tempfile
from pathlib import Path
from random import Random
from types import TracebackType

from warpsmith.base.native import build_native
from warpsmith.machines.virtual import ExecutorSettings, Facts, describe
from warpsmith.machines.virtual.control import MAGIC, REPLY, REQUEST, ControlCall
from warpsmith.machines.virtual.native import FOLDER, executor

LOAD, FUNCTION, ALLOCATE, LAUNCH, FUNCTION_FACTS, ALLOW, OCCUPANCY, SYNC = 1, 3, 20, 40, 41, 42, 43, 62
CALLS = (1, 2, 3, 4, 6, *range(20, 26), *range(30, 34), *range(40, 44), *range(50, 63), *range(70, 95))  # wire.h
MAKERS = (1, 50, 56, 71, 72, 73, 75, 76, 77, 78, 79, 88, 89)  # their replies name something
WORD = (1 << 64) - 1
EDGES = (0, 1, 2, 8, 32, 255, 1024, 4096, 65535, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 32, 1 << 63, WORD - 7, WORD)
ENTRY_FIELDS = ((0, 2), (4, 4), (8, 8), (16, 4), (28, 4), (40, 8))  # of an entry of a fat binary: fatbin.cpp
ELF_FIELDS = ((40, 8), (58, 2), (60, 2), (62, 2))
SECTION_FIELDS = ((0, 4), (4, 4), (24, 8), (32, 8), (40, 4))
PTX = re.compile(rb"\.version \d+\.\d+\n[^\0]+")
READ_HOST = 2
PATIENCE_S = 300.0  # a bound on a hang, not a measurement
Reply = tuple[int, list[int], bytes]


def sanitized() -> Path:
    """The executor with the sanitizers of addresses and of undefined behaviour, which end it at the first report."""
    sources = sorted([*(FOLDER / "executor").glob("*.cpp"), *(FOLDER / "engine").glob("*.cpp")])
    flags = ("-O1", "-ffp-contract=off", "-pthread", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined")
    return build_native("warpsmith-executor-sanitized", sources, flags)


class Executor:
    """One process, spoken to as a candidate and as the judge; leaving it must find it well."""

    def __init__(self, program: Path | None = None, memory_bytes: int = 64 << 20, around: tuple[str, ...] = ()) -> None:
        settings = ExecutorSettings(instruction_budget=2_000_000, memory_bytes=memory_bytes, print_limit_bytes=4096)
        self.line, theirs = socket.socketpair()
        self.control, other = socket.socketpair()
        self.said = tempfile.TemporaryFile()  # noqa: SIM115 -- closed where the process ends
        words = [*around, str(program or executor()), str(theirs.fileno()), str(other.fileno())]
        words += [*describe("H200").settings(), *settings.words()]
        environment = {"ASAN_OPTIONS": "detect_leaks=0"}
        self.process = subprocess.Popen(
            words, pass_fds=[theirs.fileno(), other.fileno()], stderr=self.said, env=environment
        )
        for line in (self.line, self.control):
            line.settimeout(PATIENCE_S)
        theirs.close()
        other.close()

    def __enter__(self) -> "Executor":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.line.close()
        self.control.close()
        code = self.process.wait(PATIENCE_S)
        self.said.seek(0)
        said = self.said.read().decode(errors="replace")
        self.said.close()
        assert (code, said) == (0, "")

    def ask(self, call: int, *words: int, data: bytes = b"") -> Reply:
        """A request of the candidate's, with whatever memory the executor asks it for."""
        padded = [word & WORD for word in words] + [0] * (16 - len(words))
        self.line.sendall(REQUEST.pack(MAGIC, call, *padded, len(data)) + data)
        while True:
            kind, reply = _reply(self.line)
            if kind == 1:
                return reply
            wanted = reply[1][2] * reply[1][3] if kind == READ_HOST else 0
            self.line.sendall(REQUEST.pack(MAGIC, 0, *(0,) * 16, wanted) + bytes(wanted))

    def facts(self) -> Facts:
        """What the judge is told."""
        self.control.sendall(REQUEST.pack(MAGIC, ControlCall.FACTS, 3, *(0,) * 15, 0))
        return Facts.parse(_reply(self.control)[1][2])

    def resident_bytes(self) -> int:
        """The memory that it holds."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found is not None
        return 1024 * int(found[1])

    def processor_s(self) -> float:
        """The processor time that it has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _reply(line: socket.socket) -> tuple[int, Reply]:
    kind, error, *rest = REPLY.unpack(_take(line, REPLY.size))
    return kind, (error, rest[:8], _take(line, rest[8]))


def _take(line: socket.socket, count: int) -> bytes:
    taken = b""
    while len(taken) < count:
        more = line.recv(count - len(taken))
        assert more, "the executor is gone"
        taken += more
    return taken


def fatbin_of(artifact: Path) -> bytes:
    """The fat binary in an artifact."""
    raw = artifact.read_bytes()
    start = raw.index(struct.pack("<IHH", 0xBA55ED50, 1, 16))
    return raw[start : start + 16 + struct.unpack_from("<Q", raw, start + 8)[0]]


def wrapped(ptx: str) -> bytes:
    """A fat binary with one text and no machine code."""
    body = ptx.encode() + bytes(8 - len(ptx) % 8)
    entry = struct.pack("<HHIQIIHHIIIQQQ", 1, 0x101, 64, len(body), 0, 0, 3, 8, 90, 0, 0, 0, 0, 0)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entry) + len(body)) + entry + body


def entries_of(fatbin: bytes) -> list[tuple[int, int, int]]:
    """The offset, the kind (1 PTX, 2 ELF) and the offset of the content of each entry."""
    found, at = [], 16
    while at + 64 <= len(fatbin):
        kind, _, header, size = struct.unpack_from("<HHIQ", fatbin, at)
        found.append((at, kind, at + header))
        at += header + size
    return found


def fields_of(fatbin: bytes) -> list[tuple[int, int]]:
    """Where sizes, offsets, kinds and counts lie, each with its width."""
    found = [(6, 2), (8, 8)]
    for at, kind, content in entries_of(fatbin):
        found += [(at + offset, width) for offset, width in ENTRY_FIELDS]
        if kind != 2:
            continue
        found += [(content + offset, width) for offset, width in ELF_FIELDS]
        table, count = *struct.unpack_from("<Q", fatbin, content + 40), *struct.unpack_from("<H", fatbin, content + 60)
        starts = [content + table + 64 * n for n in range(count)]
        found += [(start + offset, width) for start in starts for offset, width in SECTION_FIELDS]
    return found


def mutant(draw: Random, fatbin: bytes) -> bytes:
    """A fat binary with a few fields, bytes, stretches or words of its PTX changed."""
    made = bytearray(fatbin)
    for _ in range(draw.choice((1, 1, 2, 5))):
        way = draw.randrange(6)
        if way < 3:
            at, width = draw.choice(fields_of(fatbin))
            value = draw.choice((*EDGES, len(made), draw.getrandbits(8 * width)))
            made[at : at + width] = (value & ((1 << 8 * width) - 1)).to_bytes(width, "little")
        elif way == 3:
            here, there, count = draw.randrange(len(made)), draw.randrange(len(made)), draw.choice((1, 8, 64, 4096))
            made[here : here + count] = made[there : there + count]
        elif way == 4:
            made = bytearray(_other_words(draw, bytes(made)))
        elif draw.random() < 0.2:
            del made[draw.randrange(16, len(made)) :]
    return bytes(made)


def _other_words(draw: Random, fatbin: bytes) -> bytes:
    found = PTX.search(fatbin)
    if found is None:
        return fatbin
    text = found.group()
    words = list(re.finditer(rb"[%.\w$]+", text))
    if not words:
        return fatbin
    one, other = draw.choice(words), draw.choice(words).group()
    new = draw.choice((other, str(draw.choice(EDGES)).encode(), b""))
    text = (text[: one.start()] + new + text[one.end() :])[: len(text)].ljust(len(text))
    return fatbin[: found.start()] + text + fatbin[found.end() :]


def load_and_run(running: Executor, fatbin: bytes, name: bytes) -> None:
    """All that a candidate can have done with a module; it ends where a request is refused."""
    module = running.ask(LOAD, data=fatbin)[1][0]
    error, words, _ = running.ask(FUNCTION, module, data=name)
    if error or words[1] > 4096:
        return
    function = words[0]
    running.ask(FUNCTION_FACTS, function)
    running.ask(OCCUPANCY, function, 1024, WORD)
    running.ask(ALLOW, function, 200_000)
    memory = running.ask(ALLOCATE, 65536)[1][0]
    arguments = struct.pack("<Q", memory) * (words[1] // 8) + bytes(words[1] % 8)
    running.ask(LAUNCH, 0, function, 1 | 1 << 32, 1 | 64 << 32, 1 | 1 << 32, data=arguments)
    running.ask(SYNC)


def converse(running: Executor, draw: Random, fatbin: bytes, name: bytes, steps: int) -> None:
    """Requests of every kind in any order, with words that were answered before and words that were not."""
    function = running.ask(FUNCTION, running.ask(LOAD, data=fatbin)[1][0], data=name)[1]
    memory = [running.ask(ALLOCATE, 4096)[1][0] for _ in range(3)]
    known = [0, *(running.ask(maker)[1][0] for maker in (50, 50, 56, 73))]
    for _ in range(steps):
        call = draw.choice((*CALLS, *(LAUNCH, 77, 85) * 3))
        words = [_word(draw, known, memory) for _ in range(16)]
        data = _data(draw, call, words, function, memory, known)
        error, answer, _ = running.ask(call, *words, data=data)
        if not error and call in MAKERS:
            known += [word for word in answer[:2] if word]
        if not error and call in (20, 22) and answer[0]:
            memory.append(answer[0])


def _word(draw: Random, known: list[int], memory: list[int]) -> int:
    near = draw.choice(memory) + draw.choice((0, 0, 4, 4095))
    return draw.choice((draw.choice(known), draw.choice(known), near, near, draw.randrange(64), draw.choice(EDGES)))


def _data(draw: Random, call: int, words: list[int], function: list[int], memory: list[int], known: list[int]) -> bytes:
    """What goes with the words, which are made plausible now and then; sizes stay below what a test can send."""
    at = {LAUNCH: 1, 77: 1, 85: 2}.get(call)
    if at is not None and draw.random() < 0.8:
        shape = [1 | 1 << 32, 1 | draw.choice((1, 32, 100)) << 32, 1 | 1 << 32, draw.choice((0, 0, 4096, WORD))]
        words[at : at + 8] = [function[0], *shape, draw.choice((0, 4)), draw.choice((0, 2, WORD)), 0]
        words[0] = draw.choice(known)
        words[12] = 0
        return struct.pack("<Q", draw.choice(memory)) * (function[1] // 8) + bytes(function[1] % 8)
    if call in (30, 31, 32) and draw.random() < 0.7:
        words[0], words[5], words[6] = draw.choice(known), draw.randrange(64), draw.randrange(3)
        return bytes(words[5] * words[6])
    ids = [draw.choice(known) for _ in range(draw.randrange(3))]
    return struct.pack(f"<{len(ids)}Q", *ids) + bytes(draw.choice((0, 0, 0, 1, 7)))

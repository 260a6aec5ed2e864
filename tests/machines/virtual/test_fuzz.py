"""Mutated artifacts and requests that no runtime sends: the executor answers, and its judge after them, or refuses."""

import re
import string
import struct
import time
from pathlib import Path
from random import Random

import pytest
from fuzz import (
    ALLOCATE,
    FUNCTION,
    FUNCTION_FACTS,
    LOAD,
    SYNC,
    Executor,
    converse,
    entries_of,
    fatbin_of,
    load_and_run,
    mutant,
    sanitized,
    wrapped,
)
from runs import artifact

from warpsmith.machines.virtual import ExecutorFailure
from warpsmith.machines.virtual.control import MAGIC, REQUEST

SOURCE = (Path(__file__).parent / "bad" / "module.cu").read_text()
TEXT = ".version {version}\n.target sm_90\n.address_size 64\n.visible .entry {name}()\n{{\n  {body}\n}}\n"
REGISTERS = b"\x04\x2f\x08\x00"  # of .nv.info: how many registers a symbol's code has


@pytest.fixture(scope="module")
def fatbin() -> bytes:
    return fatbin_of(artifact(SOURCE))


@pytest.fixture(scope="module")
def name(fatbin: bytes) -> bytes:
    found = re.search(rb"\.entry (\w+)", fatbin)
    assert found is not None
    return found[1]


def throw(seeds: range, fatbin: bytes, name: bytes, program: Path | None = None) -> None:
    """Each seed a mutant and a conversation, each with an executor of its own: a refusal is for good."""
    for seed in seeds:
        draw = Random(seed)
        with Executor(program) as running:
            load_and_run(running, mutant(draw, fatbin), name)
            running.facts()
        with Executor(program) as running:
            converse(running, draw, fatbin, name, steps=60)
            running.facts()


def test_mutants_and_requests(fatbin: bytes, name: bytes) -> None:
    throw(range(40), fatbin, name)


@pytest.mark.slow
def test_mutants_and_requests_with_sanitizers(fatbin: bytes, name: bytes) -> None:
    throw(range(1000, 2000), fatbin, name, sanitized())


def test_the_module_itself_runs(fatbin: bytes, name: bytes) -> None:
    with Executor() as running:
        load_and_run(running, fatbin, name)
        assert [row.launches for row in running.facts().kernels] == [1]


def with_field(fatbin: bytes, at: int, kind: str, value: int) -> bytes:
    made = bytearray(fatbin)
    struct.pack_into(kind, made, at, value)
    return bytes(made)


def facts_of(fatbin: bytes, name: bytes) -> list[int]:
    """What the runtime is told of the function: registers, static shared memory and more."""
    with Executor() as running:
        module = running.ask(LOAD, data=fatbin)[1][0]
        return running.ask(FUNCTION_FACTS, running.ask(FUNCTION, module, data=name)[1][0])[1]


@pytest.mark.parametrize("claim", [0, 256, 0x7FFFFFF9, 0xFFFFFFFF])
def test_registers_that_no_thread_has_are_the_most_it_may_have(fatbin: bytes, name: bytes, claim: int) -> None:
    at = fatbin.index(REGISTERS, entries_of(fatbin)[1][2])
    assert facts_of(with_field(fatbin, at + 8, "<I", claim), name)[0] == 255


def test_a_version_with_more_digits_than_a_number_has() -> None:
    assert facts_of(wrapped(TEXT.format(version="9.99999999999", name="k", body="ret;")), b"k")[5] == 9 * 10 + 99999


def test_sections_that_lie_over_one_another_cost_no_more_than_one(fatbin: bytes, name: bytes) -> None:
    """65535 tables of attributes, each the whole file: read one by one they would take minutes."""
    info = struct.pack("<BBHII", 4, 0x2F, 8, 0, 8) * 400_000
    names = b"\0.nv.info\0"
    rows = 65_000
    table = 64 + len(info) + len(names)
    head = b"\x7fELF\x02\x01\x01" + bytes(9)
    head += struct.pack("<HHIQQQIHHHHHH", 2, 190, 1, 0, 0, table, 0, 64, 0, 0, 64, rows, 0)
    strings = struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, 64 + len(info), len(names), 0, 0, 1, 0)
    row = struct.pack("<IIQQQQIIQQ", 1, 1, 0, 0, 64, len(info), 0, 0, 1, 0)
    elf = head + info + names + strings + row * (rows - 1)
    entry = struct.pack("<HHIQIIHHIIIQQQ", 2, 0x101, 64, len(elf), 0, 0, 7, 1, 90, 0, 0, 0, 0, 0)
    whole = with_field(fatbin + entry + elf, 8, "<Q", len(fatbin) - 16 + len(entry) + len(elf))
    with Executor() as running:
        running.ask(LOAD, data=whole)
        assert running.processor_s() < 30


def test_a_claim_alone_takes_no_memory() -> None:
    with Executor() as running:
        running.ask(SYNC)
        running.line.sendall(REQUEST.pack(MAGIC, LOAD, *(0,) * 16, 8 << 30))
        time.sleep(0.5)
        assert running.resident_bytes() < 256 << 20


def test_memory_that_is_not_there_is_refused() -> None:
    """64 GiB of addresses are the device's own; of what is left the shadow of two gigabytes finds no room."""
    with Executor(memory_bytes=4 << 30, around=("prlimit", f"--as={66 << 30}")) as running:
        error, words, _ = running.ask(ALLOCATE, 2 << 30)
        assert (error, words[0]) == (2, 0)
        assert running.facts().failure is ExecutorFailure.MEMORY


def test_a_name_that_says_each_type_twice_stays_short() -> None:
    """Demangled it has 2^34 letters; a kernel that traps is told by its name."""
    letters = string.digits + string.ascii_uppercase
    types = "".join(f"S_IS{letters[n]}_S{letters[n]}_E" for n in range(34))
    long = f"_Z1f1AIiiE{types}"
    whole = wrapped(TEXT.format(version="8.0", name=long, body="trap;"))
    with Executor() as running:
        load_and_run(running, whole, long.encode())
        assert running.facts().detail.startswith("f: ")

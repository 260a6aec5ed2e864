"""Artifacts and words of the tools that a candidate has made large, malformed or slow to read."""

import json
import random
import resource
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.languages.nvcc.conftest import built, function, kernel

from warpsmith.isolation import ProcessLimits
from warpsmith.languages.nvcc import compile
from warpsmith.languages.nvcc.artifact import DYNSYM, HEADER, MARK, SECTION, SYMBOL, Elf, entry_texts, ptx_externs
from warpsmith.languages.nvcc.bounds import (
    ARTIFACT_BYTES,
    COMPLAINTS,
    ENTRIES,
    FILES,
    NAME_BYTES,
    NAMES,
    NAMES_BYTES,
    SECTIONS,
    TEXT_CHARACTERS,
    Exceeded,
)
from warpsmith.languages.nvcc.diagnose import read_diagnostics
from warpsmith.languages.nvcc.options import ARTIFACT, DEPENDENCIES
from warpsmith.languages.nvcc.ptxas import resource_rows
from warpsmith.languages.nvcc.reader import read_compilation
from warpsmith.languages.nvcc.reading import LIMITS, Reading, read_confined
from warpsmith.records import Failure, Reason


def elf(sections: int = 3, names: list[bytes] | None = None, tables: int = 1) -> bytes:
    """A library of sections, of which the second holds strings and the last ones the same table of symbols."""
    strings, rows = b"\0", b""
    for name in names or []:
        rows += SYMBOL.pack(len(strings), 0, 0, 0, 0, 0)
        strings += name + b"\0"
    at = HEADER.size + sections * SECTION.size
    found = [SECTION.pack(*(0,) * 10) for _ in range(sections)]
    found[1] = SECTION.pack(0, 3, 0, 0, at, len(strings), 0, 0, 0, 0)
    for place in range(sections - tables, sections):
        found[place] = SECTION.pack(0, DYNSYM, 0, 0, at + len(strings), len(rows), 1, 0, 0, SYMBOL.size)
    head = HEADER.pack(b"\x7fELF\x02\x01" + bytes(10), 3, 62, 1, 0, 0, HEADER.size, 0, 64, 0, 0, 64, sections, 0)
    return head + b"".join(found) + strings + rows


def entry(name: bytes) -> bytes:
    return MARK + name + b"\0tensor->tensor\0"


def in_folder(folder: Path, artifact: bytes, files: str = "kernel.o: kernel.cu\n") -> Path:
    (folder / ARTIFACT).write_bytes(artifact)
    (folder / DEPENDENCIES).write_text(files)
    return folder


def test_an_ordinary_library_is_read() -> None:
    assert Elf(elf(names=[b"malloc", b"free", b"free"])).undefined == ("free", "malloc")


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (elf(SECTIONS + 1), f"{SECTIONS + 1} sections; at most {SECTIONS}"),
        (elf(65279), "65279 sections"),
        (elf(names=[b"x" * (NAME_BYTES + 1)]), f"no end within {NAME_BYTES} bytes"),
        (elf(names=[b"x" * (4 << 20)]), f"no end within {NAME_BYTES} bytes"),
        (elf(names=[b"x%d" % number for number in range(NAMES + 1)]), f"{NAMES + 1} undefined symbols"),
        (elf(names=[b"x" * 4000 + b"%d" % number for number in range(100)]), f"at most {NAMES_BYTES}"),
        (elf(3000, names=[b"x"] * 30_000, tables=2000), "bytes of tables"),
        (elf()[:70], "truncated"),
        (elf()[: HEADER.size] + b"\0" * 10, "truncated"),
    ],
)
def test_more_than_is_read_is_refused_by_its_bound(raw: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        _ = Elf(raw).undefined


@pytest.mark.parametrize("place", ["e_shoff", "e_shentsize", "e_shnum", "sh_offset", "sh_size", "sh_link", "st_name"])
@pytest.mark.parametrize("value", [0, 1, 0x7FFF, 0xFFFF, (1 << 31) - 1, (1 << 32) - 1, (1 << 63) - 1, (1 << 64) - 1])
def test_a_forged_number_is_a_value_error_or_harmless(place: str, value: int) -> None:
    """Headers that point at themselves, at each other, or beyond the file."""
    raw = bytearray(elf(names=[b"malloc"]))
    table = HEADER.size + 2 * SECTION.size
    offset, width = {
        "e_shoff": (40, 8), "e_shentsize": (58, 2), "e_shnum": (60, 2), "sh_offset": (table + 24, 8),
        "sh_size": (table + 32, 8), "sh_link": (table + 40, 4), "st_name": (len(raw) - SYMBOL.size, 4),
    }[place]  # fmt: skip
    raw[offset : offset + width] = (value % (1 << 8 * width)).to_bytes(width, "little")
    try:
        assert len(Elf(bytes(raw)).undefined) <= 1
    except ValueError as error:
        assert str(error)


def test_functions_from_elsewhere_are_bounded() -> None:
    assert ptx_externs(b".extern .func (.param .b32 r)\n name(") == ("name",)
    assert ptx_externs(b".extern .func (x" * 10) == ()
    with pytest.raises(Exceeded, match="bytes in the name"):
        ptx_externs(b".extern .func " + b"x" * (1 << 20))
    with pytest.raises(Exceeded, match=f"at most {NAMES}"):
        ptx_externs(b"".join(b".extern .func f%d\n" % number for number in range(NAMES + 1)))


def test_functions_to_call_are_bounded() -> None:
    assert entry_texts(entry(b"forward")) == {"forward": "tensor->tensor"}
    with pytest.raises(Exceeded, match=f"at most {ENTRIES}"):
        entry_texts(b"".join(entry(b"f%d" % number) for number in range(ENTRIES + 1)))


def test_what_the_tools_say_is_bounded() -> None:
    flood = "".join(f"kernel.cu({number}): warning: {'x' * 9000}\n" for number in range(COMPLAINTS + 50))
    found = read_diagnostics(flood)
    assert len(found) == COMPLAINTS and max(len(one.text) for one in found) <= TEXT_CHARACTERS
    begins = "ptxas info    : Compiling entry function '{}' for 'sm_90a'\n"
    with pytest.raises(Exceeded, match="kernels"):
        resource_rows("".join(begins.format(f"k{number}") for number in range(NAMES + 1)))
    with pytest.raises(Exceeded, match="bytes in the name"):
        resource_rows(begins.format("k" * 5000))


# What took time that grows with the square of its length: four times the bytes, sixteen times the seconds.
SLOW = {
    "externs": (".extern .func (x", "\n.extern .func (x", ".extern .func" + " " * 50, "\n.extern .func\n"),
    "words": (
        "undefined reference to `", "../", "kernel.cu(1): error: ../../", "ptxas info    : Compiling entry function '",
        "ptxas info\n", "1 bytes stack frame, ", "x:1:", "\n", "In file included from ", "a\n",
    ),
    "entries": (MARK.decode("latin-1"), MARK.decode("latin-1") + "a\0"),
}  # fmt: skip
CPU = """
import json, resource, sys
from pathlib import Path
from warpsmith.languages.nvcc.artifact import entry_texts, ptx_externs
from warpsmith.languages.nvcc.diagnose import read_diagnostics
from warpsmith.languages.nvcc.ptxas import resource_rows
resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
kind, text = json.load(sys.stdin)
if kind == "words":
    read_diagnostics(text), resource_rows(text)
else:
    (ptx_externs if kind == "externs" else entry_texts)(text.encode("latin-1"))
"""


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in SLOW.items() for text in texts])
def test_time_to_read_is_linear(kind: str, text: str) -> None:
    """1.7 MB are read within the processor time that the confined process has; the square of it would take hours."""
    asked = json.dumps([kind, text * (1_700_000 // len(text))])
    done = subprocess.run([sys.executable, "-c", CPU], input=asked, text=True, capture_output=True, check=False)
    assert done.returncode == 0 or "Exceeded" in done.stderr, done.stderr[-300:]


def test_the_confined_process_reads_what_a_compilation_left(tmp_path: Path) -> None:
    raw = elf(names=[b"malloc"]) + entry(b"forward") + b"\n.extern .func vprintf\n"
    said = "kernel.cu(3): error: z\nptxas info    : Compiling entry function 'k' for 'sm_90a'\n"
    found = read_confined(in_folder(tmp_path, raw, "x.o: /usr/include/a.h \\\n /usr/include/b.h\n"), said, True)
    assert isinstance(found, Reading) and found.failure() is None
    assert (found.undefined, found.externs, found.files) == (
        ("malloc",), ("vprintf",), ("/usr/include/a.h", "/usr/include/b.h"),
    )  # fmt: skip
    assert [one.name for one in found.entry_points] == ["forward"]
    assert [one.name for one in found.resources] == ["k"] and found.diagnostics[0].line == 3


@pytest.mark.parametrize(
    ("artifact", "files", "reason", "said"),
    [
        (b"", "", Reason.COMPILE_ERROR, "ELF"),
        (b"\x7fELF" + bytes(99), "", Reason.COMPILE_ERROR, "not a 64-bit"),
        (elf(SECTIONS + 1), "", Reason.COMPILE_LIMIT, "sections"),
        (elf(names=[b"x" * 9000]), "", Reason.COMPILE_ERROR, f"{NAME_BYTES} bytes"),
        (elf(), "\n".join(f"/a/{n}" for n in range(FILES + 1)), Reason.COMPILE_LIMIT, f"at most {FILES}"),
        (elf(), "/" + "a" * 9000, Reason.COMPILE_LIMIT, "name of a file"),
    ],
)
def test_a_refusal_is_a_value_that_names_the_bound(
    tmp_path: Path, artifact: bytes, files: str, reason: Reason, said: str
) -> None:
    found = read_confined(in_folder(tmp_path, artifact, files), "", True)
    assert isinstance(found, Reading)
    fault = found.failure()
    assert fault is not None and fault.reason is reason and said in fault.detail and len(fault.detail) < 1000


def test_an_artifact_beyond_its_bytes_is_not_read(tmp_path: Path) -> None:
    in_folder(tmp_path, b"")
    with (tmp_path / ARTIFACT).open("wb") as out:
        out.truncate(ARTIFACT_BYTES + 1)
    found = read_confined(tmp_path, "", True)
    assert isinstance(found, Reading) and f"at most {ARTIFACT_BYTES} are read" in found.exceeded


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        (ProcessLimits(cpu_s=1, memory_bytes=2 << 30, output_bytes=1 << 20), "processor time"),
        (ProcessLimits(cpu_s=60, memory_bytes=2 << 30, output_bytes=100), "it printed more than 100 bytes"),
        (ProcessLimits(wall_s=0.05, memory_bytes=2 << 30, output_bytes=1 << 20), "wall-clock time"),
    ],
)
def test_a_process_that_is_stopped_refuses_the_candidate(tmp_path: Path, limits: ProcessLimits, said: str) -> None:
    found = read_confined(in_folder(tmp_path, elf()), "x:1:\n" * 3_000_000, True, limits)
    assert isinstance(found, Failure) and found.reason is Reason.COMPILE_LIMIT and said in found.detail


def test_memory_that_is_used_up_refuses_the_candidate(tmp_path: Path) -> None:
    limits = ProcessLimits(cpu_s=60, memory_bytes=64 << 20, output_bytes=1 << 20)
    found = read_confined(in_folder(tmp_path, elf()), "a\n" * 8_000_000, True, limits)
    fault = found if isinstance(found, Failure) else found.failure()
    assert fault is not None and fault.reason is Reason.COMPILE_LIMIT and "memory" in fault.detail


FLOOD = """
#define TEN(x) x x x x x x x x x x
#define THOUSANDS(x) TEN(TEN(TEN(x)))
"""
EXTERNS = FLOOD + '__attribute__((used)) const char text[] = TEN(TEN(THOUSANDS("\\n.extern .func (x")));\n'
NAMES_OF_MEGABYTES = FLOOD + (
    '#define LONG THOUSANDS(TEN(TEN("0123456789")))\nasm(".weak a" LONG "\\n.section .data\\n.quad a" LONG);\n'
)
MANY_SECTIONS = FLOOD.replace("TEN(TEN(TEN(x)))", "x") + (
    'asm(".altmacro\\n.macro one n\\n.section s\\\\n,\\"a\\"\\n.byte 1\\n.endm\\n.set n,0\\n'
    '.rept 9000\\none %n\\n.set n,n+1\\n.endr\\n.text");\n'
)


@pytest.mark.parametrize("before", [EXTERNS, NAMES_OF_MEGABYTES, MANY_SECTIONS], ids=["externs", "names", "sections"])
def test_a_hostile_source_ends_with_a_small_result_and_leaves_no_memory(before: str) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    made = built(function("", before=before))
    assert len(made.result.text()) < 200_000
    assert made.ok or made.result.reason in (Reason.COMPILE_LIMIT, Reason.COMPILE_ERROR, Reason.FORBIDDEN_SYMBOL)
    assert made.ok or len(made.result.detail) < 5000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - used < 400 << 10  # KiB


def mutated(raw: bytes, rng: random.Random) -> bytes:
    """The bytes with some changed, moved, removed or repeated; headers more often than the rest."""
    found = bytearray(raw)
    for _ in range(rng.randrange(1, 9)):
        within = rng.choice([64, 4096, len(found)])
        at = min(rng.randrange(within), len(found) - 8)
        match rng.randrange(5):
            case 0:
                found[at] = rng.randrange(256)
            case 1:
                found[at : at + 8] = struct.pack("<Q", rng.choice([0, 1, 1 << 31, (1 << 64) - 1, at, len(found)]))
            case 2:
                del found[at + 8 : at + 8 + rng.randrange(1, 4096)]
            case 3:
                found[at:at] = found[: rng.randrange(1, 4096)]
            case 4:
                del found[max(64, at) :]
    return bytes(found).ljust(9, b"\0")


def read_mutations(raw: bytes, folder: Path, seed: int, seconds: float, most: int) -> int:
    """How many mutations were read in the time; each is read, or refused with a sentence."""
    rng, ends, count = random.Random(seed), time.monotonic() + seconds, 0
    path = folder / ARTIFACT
    while count < most and time.monotonic() < ends:
        path.write_bytes(mutated(raw, rng))
        found = Reading.model_validate(json.loads(json.dumps(read_compilation("", folder / "none", path))))
        fault = found.failure()
        assert fault is None or len(fault.detail) < 1000
        assert len(found.text()) < 2 << 20
        assert "Error" not in found.malformed, found.malformed  # no exception that nobody thought of
        count += 1
    return count


def real_artifact() -> bytes:
    made = compile(kernel("habits.cu"))
    assert made.artifact is not None
    return made.artifact.read_bytes()


def test_mutations_of_a_real_artifact_are_read_or_refused(tmp_path: Path) -> None:
    assert read_mutations(real_artifact(), tmp_path, 29, seconds=20, most=60) > 5


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_many_mutations_of_a_real_artifact(tmp_path: Path, seed: int) -> None:
    raw = real_artifact()
    assert read_mutations(raw, tmp_path, seed, seconds=60, most=5000) > 20
    start = raw.find(b"\x7fELF", 1)  # a cubin inside
    assert read_mutations(raw[start:] if start > 0 else raw[64:], tmp_path, seed, seconds=30, most=5000) > 20


def test_the_limits_are_no_wider_than_the_compiler_s() -> None:
    from warpsmith.languages.nvcc.options import LIMITS as COMPILER

    for name in ("wall_s", "cpu_s", "memory_bytes", "processes", "open_files", "file_bytes", "output_bytes"):
        assert getattr(LIMITS, name) <= getattr(COMPILER, name), name

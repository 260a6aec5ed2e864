"""Parse the output of compute-sanitizer into findings. Starts no tool."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from warpsmith.records import Checker, Finding, Place, Severity, Span

PREFIX = "========="
SUMMARY = re.compile(
    r"(?:ERROR|LEAK) SUMMARY: (\d+) errors?$|RACECHECK SUMMARY: \d+ hazards? displayed \((\d+) errors?"
)
ACCESS = re.compile(r"(?:Invalid|Uninitialized) (__\w+__) (?:memory )?(read|write|atomic)\S* of size (\d+) bytes?")
# `at kernel(float *)+0x80 in file.cu:4`; the second form has the place in the middle and is that of older tools.
FRAME = re.compile(r"(?:at |Device Frame: ?)(.+?)(?:\+0x[0-9a-f]+)?(?: in (\S+):(\d+))?$")
OLD_FRAME = re.compile(r"at 0x[0-9a-f]+ in (?:(\S+):(\d+):)?(.+)$")
INDICES = re.compile(r"by thread \((\d+),(\d+),(\d+)\) in block \((\d+),(\d+),(\d+)\)")
ADDRESS = re.compile(r"(?:Access (?:to|at)|Address) (0x[0-9a-f]+)")
RACE = re.compile(r"access at (\S.*?)(?:\+0x[0-9a-f]+)?(?: in (\S+):(\d+))?(?: \[(\d+) hazards?\])?$")
API = re.compile(r"Program hit (\w+) \(error (\d+)\).*on CUDA API call to (\w+)")
STICKY = {700, 701, 702, 714, 715, 716, 717, 718, 719}  # errors that a kernel caused: illegal address to launch failure
SAID = ("Access ", "Address ", "and is ", "Barrier is ", "Memory was ", "Nearest ")
CHECKERS = {
    "Uninitialized ": Checker.UNINITIALIZED,
    "Barrier error": Checker.BARRIER,
    "Race reported": Checker.RACE,
    "Potential ": Checker.RACE,
    "Leaked ": Checker.LEAK,
    "Invalid __": Checker.OUT_OF_BOUNDS,
}


@dataclass(frozen=True)
class SanitizerReport:
    """The findings without repeats, the number of errors that the tool counted, and its other messages.

    `errors` is None if there is no summary: the tool did not finish, and an empty report proves nothing.
    """

    findings: tuple[Finding, ...]
    errors: int | None
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Block:
    """A heading and the indented lines below it."""

    heading: str
    lines: tuple[str, ...]


def read_sanitizer(text: str) -> SanitizerReport:
    """Parse compute-sanitizer's output, ignoring the program's own lines."""
    errors, remarks, found = None, [], []
    for block in _blocks(text):
        if counted := SUMMARY.search(block.heading):
            errors = (errors or 0) + int(counted[1] or counted[2])
        elif finding := _finding(block):
            found.append(finding)
        elif block.heading != "COMPUTE-SANITIZER":
            remarks.append(block.heading)
    return SanitizerReport(_without_repeats(_causes(found)), errors, tuple(remarks))


def _blocks(text: str) -> Iterator[_Block]:
    """Yield the headings of the output with their lines."""
    heading, lines = "", list[str]()
    for line in (raw.removeprefix(PREFIX) for raw in text.splitlines() if raw.startswith(PREFIX)):
        if line.startswith("    ") and heading:
            lines.append(line.strip())
            continue
        if heading:
            yield _Block(heading, tuple(lines))
        heading, lines = line.strip(), []
    if heading:
        yield _Block(heading, tuple(lines))


def _finding(block: _Block) -> Finding | None:
    """Return the finding of a block, None if the block is a message."""
    heading = block.heading.removeprefix("Error: ").removeprefix("Warning: ")
    if api := API.match(heading):
        severity = Severity.ERROR if int(api[2]) in STICKY else Severity.WARNING
        return Finding(checker=Checker.LAUNCH, message=heading, severity=severity)
    checker = next((known for start, known in CHECKERS.items() if heading.startswith(start)), None)
    if checker is Checker.RACE:
        return _race(block, heading)
    frames = list(_frames(block.lines))
    if checker is None and not frames:
        return None
    said = [line for line in block.lines if line.startswith(SAID)]
    if checker is Checker.OUT_OF_BOUNDS and any("misaligned" in line for line in said):
        checker = Checker.MISALIGNED
    return Finding(
        checker=checker or Checker.TRAP,  # a fault that is none of the known ones, in a kernel all the same
        message=" ".join([heading.rstrip(".") + (":" if said else ""), *said]),
        place=_place(frames),
        kernel=frames[-1].name if frames else "",
        thread=_indices(block.lines, 1),
        block=_indices(block.lines, 4),
        span=_span(heading, said),
    )


def _race(block: _Block, heading: str) -> Finding:
    """Return the finding of a race, with the places of both accesses."""
    sides = [match for line in (heading, *block.lines) if (match := RACE.search(line))]
    frames = [_Frame(_plain(side[1]), side[2] or "", int(side[3] or 0)) for side in sides]
    return Finding(
        checker=Checker.RACE,
        message=" ".join([heading, *(line for line in block.lines if line.startswith("and "))]),
        severity=Severity.WARNING if block.heading.startswith("Warning: ") else Severity.ERROR,
        place=_place(frames),
        kernel=frames[0].name if frames else "",
        count=sum(int(side[4]) for side in sides if side[4]) or 1,
    )


@dataclass(frozen=True)
class _Frame:
    """A function of a kernel's stack, with its file and line if the binary has them."""

    name: str
    file: str
    line: int


def _frames(lines: tuple[str, ...]) -> Iterator[_Frame]:
    """Yield the frames from the innermost to the kernel."""
    for line in lines:
        if old := OLD_FRAME.match(line):
            yield _Frame(_plain(old[3]), old[1] or "", int(old[2] or 0))
        elif frame := FRAME.match(line):
            yield _Frame(_plain(frame[1]), frame[2] or "", int(frame[3] or 0))


def _place(frames: list[_Frame]) -> Place | None:
    """Return the innermost place, preferably in a .cu file, or None."""
    known = [frame for frame in frames if frame.line]
    best = next((frame for frame in known if ".cu" in frame.file), known[0] if known else None)
    return Place(file=best.file, line=best.line) if best else None


def _indices(lines: tuple[str, ...], first: int) -> tuple[int, int, int] | None:
    """Return the indices of a thread or block, or None."""
    match = next((found for line in lines if (found := INDICES.match(line))), None)
    return (int(match[first]), int(match[first + 1]), int(match[first + 2])) if match else None


def _span(heading: str, said: list[str]) -> Span | None:
    """Return the address and size of an access, or None."""
    access, address = ACCESS.match(heading), next((m for line in said if (m := ADDRESS.match(line))), None)
    if access is None or address is None:
        return None
    return Span(start=int(address[1], 16), bytes=int(access[3]), space=access[1].strip("_"))


def _plain(name: str) -> str:
    """Return a function's name without its result type and parameters."""
    return re.sub(r"\((?!anonymous).*$", "", name.strip()).strip().removeprefix("void ") or name


def _causes(found: list[Finding]) -> list[Finding]:
    """Return the findings without API errors that only repeat that a kernel failed."""
    caused = any(one.severity is Severity.ERROR and one.checker is not Checker.LAUNCH for one in found)
    return [one for one in found if not (caused and one.checker is Checker.LAUNCH)]


def _without_repeats(found: list[Finding]) -> tuple[Finding, ...]:
    """Return one finding for equal findings at one place, with their number."""
    kept: dict[object, Finding] = {}
    for one in found:
        key = (one.checker, one.kernel, one.place, one.message.split(":")[0], one.severity)
        first = kept.get(key)
        kept[key] = first.model_copy(update={"count": first.count + one.count}) if first else one
    return tuple(kept.values())

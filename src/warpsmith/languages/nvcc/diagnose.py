"""Compiler output as findings, shortened for models. Parses nvcc, gcc, ptxas, as and ld."""

import re
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from warpsmith.languages.nvcc.bounds import COMPLAINTS, LINE_CHARACTERS, TEXT_CHARACTERS

if TYPE_CHECKING:
    from warpsmith.records import Finding

SOURCE = "kernel.cu"
MOST_ERRORS, MOST_WARNINGS = 8, 4
MESSAGE_CHARACTERS, FILE_CHARACTERS = 400, 200
# A line has at most nine digits: the name of a file before it is the source's own by #line, and may look like one.
LEVELS = "catastrophic error|fatal error|internal error|internal compiler error|error|warning"
EDG = re.compile(rf"^(?P<file>[^\s(][^(\n]*)\((?P<line>\d{{1,9}})\): (?P<level>{LEVELS})(?: #[\w-]+)?: (?P<text>.*)$")
EDG_END = re.compile(rf"^At end of source: (?P<level>{LEVELS})(?: #[\w-]+)?: (?P<text>.*)$")
GCC = re.compile(
    rf"^(?P<file>[^\s:][^:\n]*):(?P<line>\d{{1,9}}):(?P<column>\d{{1,9}}): (?P<level>{LEVELS}): (?P<text>.*)$"
)
GCC_BARE = re.compile(rf"^(?P<file>g\+\+|cc1plus|gcc|[^\s:]+): (?P<level>{LEVELS}): (?P<text>.*)$")
PTXAS = re.compile(r"^ptxas (?P<file>[^,\s]+), line (?P<line>\d{1,9}); (?P<level>error|warning)\s*: (?P<text>.*)$")
PTXAS_BARE = re.compile(r"^ptxas (?P<level>fatal|error|warning)\s*: (?P<text>.*)$")
# The only hint that matrix instructions of a warp group wait for each other, which can halve a kernel's speed.
PTXAS_LOSS = re.compile(r"^ptxas (?P<level>info)\s*: \(C\d+\) (?P<text>Potential Performance Loss: .*)$")
NVCC = re.compile(r"^(?:nvcc|nvlink) (?P<level>fatal|error|warning)\s*: (?P<text>.*)$")
ASSEMBLER = re.compile(r"^(?P<file>[^\s:]+):(?P<line>\d{1,9}): (?P<level>Error|Warning): (?P<text>.*)$")
LINKER = re.compile(r"undefined (?P<level>reference) to `(?P<text>[^']+)'")
SHAPES = (EDG, EDG_END, GCC, PTXAS, PTXAS_BARE, PTXAS_LOSS, NVCC, ASSEMBLER, GCC_BARE, LINKER)
INCLUDED = re.compile(r"(?:In file included|  +) from .*[:,]$")
CARET = re.compile(r"^\s*\^\s*$")


@dataclass(frozen=True)
class Diagnostic:
    """One message of a tool with its place in the source."""

    level: str
    text: str
    file: str = ""
    line: int = 0
    column: int = 0
    tool: str = "compiler"
    included: bool = False  # the tool says which line includes the file; a name given by #line has none

    @property
    def is_error(self) -> bool:
        """Whether the message is an error."""
        return self.level not in ("warning", "info")

    def finding(self) -> "Finding":
        """Return the message as a finding; places in temporary files are dropped."""
        # Imported here: the confined reader loads this module without site packages, and so without pydantic.
        from warpsmith.records import Checker, Finding, Place, Severity

        name = PurePosixPath(self.file).name
        # Temporary files have names that change with each run, and a place in them helps nobody.
        known = bool(self.line) and not name.endswith((".s", ".ptx", ".ii", "-shim"))
        place = Place(file=name if name == SOURCE else _short(self.file), line=self.line, column=self.column)
        return Finding(
            checker=Checker.LINK if self.tool == "linker" else Checker.COMPILER,
            severity=Severity.ERROR if self.is_error else Severity.WARNING,
            message=self.text[:MESSAGE_CHARACTERS],
            place=place if known else None,
        )


def _short(path: str) -> str:
    """Return the last two parts of a header's path."""
    return "/".join(PurePosixPath(path).parts[-2:])[:FILE_CHARACTERS]


def read_diagnostics(said: str) -> tuple[Diagnostic, ...]:
    """Read the first messages of the output, without duplicates."""
    # The host pass and the device pass report the same error: the text and place identify it.
    found: dict[tuple[str, str, int], Diagnostic] = {}
    lines = [line[:LINE_CHARACTERS] for line in said.splitlines()]
    for index, line in enumerate(lines):
        for shape in SHAPES:
            # GNU ld prints the place before its message, so its pattern is searched; the others begin the line.
            if (match := shape.search(line) if shape is LINKER else shape.match(line)) is not None:
                made = _diagnostic(match, shape, lines[index + 1 : index + 8])
                if index and INCLUDED.match(lines[index - 1]):
                    made = replace(made, included=True)
                found.setdefault((made.text, made.file, made.line), made)
                break
        # A candidate can make the compiler print without end.
        if len(found) == COMPLAINTS:
            break
    return tuple(found.values())


def _diagnostic(match: re.Match[str], shape: re.Pattern[str], following: list[str]) -> Diagnostic:
    """Return the diagnostic of one match."""
    part = match.groupdict()
    text, column = part["text"].strip()[:TEXT_CHARACTERS], int(part.get("column") or 0)
    if shape is LINKER:
        return Diagnostic("error", f"undefined reference to {text}", tool="linker")
    if shape is EDG_END:
        text = f"{text} at the end of the source"
    if shape is EDG:
        text, column = _edg_details(text, following)
    tool = "assembler" if shape is ASSEMBLER else "compiler"
    file = (part.get("file") or "")[:TEXT_CHARACTERS]
    return Diagnostic(part["level"].lower(), text[:TEXT_CHARACTERS], file, int(part.get("line") or 0), column, tool)


def _edg_details(text: str, following: list[str]) -> tuple[str, int]:
    """Return an EDG message and the caret's column."""
    # EDG continues a message on indented lines, then prints the source line and a caret below the column.
    for index, line in enumerate(following):
        if CARET.match(line):
            continued = [part.strip() for part in following[: max(index - 1, 0)] if part.startswith("   ")]
            return " ".join([text, *continued]), max(line.index("^") - 1, 1)
        if EDG.match(line) or not line.strip():
            break
    return text, 0


def to_findings(diagnostics: tuple[Diagnostic, ...]) -> "tuple[Finding, ...]":
    """Return the most important findings."""
    errors = [one for one in diagnostics if one.is_error]
    others = [one for one in diagnostics if not one.is_error]
    losses = [one for one in others if one.level == "info"]
    own = [one for one in others if one.level != "info" and PurePosixPath(one.file).name == SOURCE]
    return tuple(one.finding() for one in (*errors[:MOST_ERRORS], *[*losses, *own][:MOST_WARNINGS]))

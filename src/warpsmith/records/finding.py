"""Findings of checkers, and the failure of a candidate."""

from dataclasses import dataclass
from enum import StrEnum

from warpsmith.records.model import Model
from warpsmith.records.verdict import Reason


class Severity(StrEnum):
    """Whether a finding makes the kernel wrong or possibly wrong."""

    ERROR = "error"
    WARNING = "warning"


class Checker(StrEnum):
    """The checker that found a fault."""

    COMPILER = "compiler"
    LINK = "link"
    OUT_OF_BOUNDS = "out_of_bounds"
    MISALIGNED = "misaligned"
    UNINITIALIZED = "uninitialized"
    RACE = "race"
    BARRIER = "barrier"
    SHUFFLE = "shuffle"
    LAUNCH = "launch"
    ENDLESS = "endless"
    LEAK = "leak"
    TRAP = "trap"
    RULE = "rule"  # a static rule: a sign, never a verdict


class Place(Model):
    """A line of source."""

    file: str
    line: int
    column: int = 0


class Span(Model):
    """A range of addresses in a memory space, such as `global allocation 3`."""

    start: int
    bytes: int
    space: str = ""


class Finding(Model):
    """One fault with its place and one sentence."""

    checker: Checker
    message: str
    severity: Severity = Severity.ERROR
    place: Place | None = None
    kernel: str = ""
    block: tuple[int, int, int] | None = None
    thread: tuple[int, int, int] | None = None
    span: Span | None = None
    count: int = 1


@dataclass(frozen=True)
class Failure:
    """The failure of a candidate: the reason, a sentence with the evidence, and the findings behind it."""

    reason: Reason
    detail: str
    findings: tuple[Finding, ...] = ()

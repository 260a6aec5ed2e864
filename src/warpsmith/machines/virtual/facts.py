"""Facts that the executor reports after a call."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from pydantic import field_validator

from warpsmith.machines.virtual.cost import Transfers, modelled_cost, total
from warpsmith.machines.virtual.description import Description
from warpsmith.machines.virtual.rows import LaunchRow
from warpsmith.records import Checker, Finding, KernelCounters, Model, ModelledTime, Place, Span, VirtualFacts

COMPILED = re.compile(r".*/warpsmith-compile-[^/]*/kernel\.cu")  # compile/build.py


def plain_file(path: str) -> str:
    """Return a source path without the compiler's folder."""
    return "kernel.cu" if COMPILED.fullmatch(path) else path


class ExecutorFailure(StrEnum):
    """The first failure on the virtual GPU, beyond findings."""

    NONE = ""
    UNKNOWN_CALL = "unknown_call"
    UNKNOWN_INSTRUCTION = "unknown_instruction"
    BAD_MODULE = "bad_module"
    BUDGET = "budget"
    FAULT = "fault"
    TRAP = "trap"
    ASSERT = "assert"
    LAUNCH = "launch"
    MEMORY = "memory"


class RawFinding(Model):
    """A finding as the executor writes it."""

    checker: Checker
    message: str
    kernel: str
    block: tuple[int, int, int]
    thread: tuple[int, int, int]
    file: str
    line: int
    column: int
    start: int
    bytes: int
    space: str
    count: int

    def finding(self) -> Finding:
        """Return the finding as a record, without unknown places."""
        seen = bool(self.line or self.start)
        return Finding(
            checker=self.checker,
            message=self.message,
            place=Place(file=plain_file(self.file), line=self.line, column=self.column) if self.line else None,
            kernel=self.kernel,
            block=self.block if seen else None,
            thread=self.thread if seen else None,
            span=Span(start=self.start, bytes=self.bytes, space=self.space) if self.bytes else None,
            count=self.count,
        )


class Facts(Model):
    """The findings and counters of one call."""

    findings: tuple[RawFinding, ...] = ()
    findings_dropped: int = 0
    kernels: tuple[LaunchRow, ...] = ()
    log: str = ""
    printed_bytes: int = 0
    transfers: int = 0
    transferred_bytes: int = 0
    host_bytes: int = 0  # of those, what went to the host
    error: int = 0
    failure: ExecutorFailure = ExecutorFailure.NONE
    detail: str = ""

    @field_validator("log", "detail", mode="before")
    @classmethod
    def _text(cls, raw: Any) -> Any:
        """Decode the executor's text, Latin-1 or UTF-8."""
        # The executor writes bytes of the candidate's printf as Latin-1, which any bytes are. UTF-8 text
        # is recovered, and other bytes become replacement characters instead of an error.
        return raw.encode("latin-1", "replace").decode("utf-8", "replace") if isinstance(raw, str) else raw

    def time(self, gpu: Description) -> ModelledTime | None:
        """Return the modelled time, or None without a kernel."""
        transfers = Transfers(self.transfers, self.transferred_bytes)
        return total(self.kernels, gpu, transfers) if self.kernels else None

    def record(self, gpu: Description, case: str = "") -> VirtualFacts:
        """Return the facts of the virtual stage as a record."""
        unknown = self.failure in (ExecutorFailure.UNKNOWN_CALL, ExecutorFailure.UNKNOWN_INSTRUCTION)
        return VirtualFacts(
            case=case,
            findings=tuple(raw.finding() for raw in self.findings),
            kernels=tuple(counters(row, gpu) for row in self.kernels),
            modelled=self.time(gpu),
            log=self.log,
            unknown=self.detail if unknown else "",
        )


def counters(row: LaunchRow, gpu: Description) -> KernelCounters:
    """Return a row as a record."""
    shared: Mapping[str, Any] = row.counters.model_dump(include=set(KernelCounters.model_fields))
    return KernelCounters(
        name=row.kernel,
        launches=row.launches,
        grid=row.grid,
        block=row.block,
        classes=row.classes,
        registers=row.registers,
        occupancy=row.occupancy(gpu),
        modelled=modelled_cost(row, gpu).modelled(gpu),
        **shared,
    )

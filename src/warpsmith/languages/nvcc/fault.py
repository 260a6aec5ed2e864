"""Why a candidate fails to compile, before it becomes a stage result."""

from dataclasses import dataclass

from warpsmith.records import Finding, Reason


@dataclass(frozen=True)
class Fault:
    """A reason, a sentence, and what the compiler said."""

    reason: Reason
    detail: str
    findings: tuple[Finding, ...] = ()

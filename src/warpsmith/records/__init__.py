"""The one data model, frozen, and its JSON form. Knows no torch, no CUDA and no files."""

from warpsmith.records.candidate import Candidate, Language
from warpsmith.records.environment import Confined, Environment
from warpsmith.records.facts import (
    CompileFacts,
    Facts,
    KernelCounters,
    KernelResources,
    MeasuredTime,
    ModelledTime,
    VirtualFacts,
)
from warpsmith.records.finding import Checker, Finding, Place, Severity, Span
from warpsmith.records.model import Model
from warpsmith.records.record import Options, Record, StageResult
from warpsmith.records.task import (
    Argument,
    Axis,
    Case,
    Cost,
    Direction,
    Dtype,
    Family,
    Group,
    Heldout,
    Kind,
    Origin,
    Precision,
    Reach,
    Role,
    Signature,
    Task,
    Tolerance,
)
from warpsmith.records.verdict import Reason, Verdict

__all__ = [
    "Argument",
    "Axis",
    "Candidate",
    "Case",
    "Checker",
    "CompileFacts",
    "Confined",
    "Cost",
    "Direction",
    "Dtype",
    "Environment",
    "Facts",
    "Family",
    "Finding",
    "Group",
    "Heldout",
    "KernelCounters",
    "KernelResources",
    "Kind",
    "Language",
    "MeasuredTime",
    "Model",
    "ModelledTime",
    "Options",
    "Origin",
    "Place",
    "Precision",
    "Reach",
    "Reason",
    "Record",
    "Role",
    "Severity",
    "Signature",
    "Span",
    "StageResult",
    "Task",
    "Tolerance",
    "Verdict",
    "VirtualFacts",
]

"""The one data model, frozen, and its JSON form. Knows no torch, no CUDA and no files."""

from typing import TYPE_CHECKING

from warpsmith.base.lazy import lazy_members
from warpsmith.records.candidate import Candidate, Language
from warpsmith.records.dtype import Dtype, Numbers
from warpsmith.records.environment import Confined, ConfinementForm, Environment
from warpsmith.records.facts import (
    CaseCheck,
    CaseTiming,
    CheckFacts,
    CompileFacts,
    Facts,
    KernelCounters,
    KernelResources,
    Ratio,
    SanitizerFacts,
    SpeedComparison,
    StaticFacts,
    TimingFacts,
    VirtualFacts,
)
from warpsmith.records.finding import Checker, Failure, Finding, Place, Severity, Span
from warpsmith.records.model import LONGEST_NAME, Model, Name, describe_error, shorten_value
from warpsmith.records.options import CLAIM, EFFORT_OF_TIER, Defence, Effort, EvaluationOptions, Seed
from warpsmith.records.profile import (
    Binding,
    Ceilings,
    HotLine,
    KernelProfile,
    Metric,
    PassedOver,
    ProfileFacts,
    ProfileSource,
    RooflinePlace,
)
from warpsmith.records.proof import UNPROVEN, mark_name, mark_source, require_proven, unmark_source, unproven_reason
from warpsmith.records.record import Record, StageResult
from warpsmith.records.run import Lesson, ModelCall, Run, RunState
from warpsmith.records.score import MeasuredScore, ModelledScore, Score, score
from warpsmith.records.task import (
    Argument,
    ArgumentKind,
    Axis,
    Case,
    Direction,
    Family,
    Group,
    Heldout,
    Init,
    Narrower,
    Origin,
    Precision,
    Reach,
    Role,
    Signature,
    Task,
    Tolerance,
    Trial,
    Twist,
    Work,
    WorkFormulas,
)
from warpsmith.records.times import MeasuredTime, ModelledTime
from warpsmith.records.torch_mode import MODES, TorchMode
from warpsmith.records.verdict import Reason, Verdict

__all__ = [
    "CLAIM",
    "EFFORT_OF_TIER",
    "LONGEST_NAME",
    "MODES",
    "Argument",
    "ArgumentKind",
    "Axis",
    "Binding",
    "Candidate",
    "Case",
    "CaseCheck",
    "CaseTiming",
    "Ceilings",
    "CheckFacts",
    "Checker",
    "CompileFacts",
    "Confined",
    "ConfinementForm",
    "Defence",
    "Direction",
    "Dtype",
    "Effort",
    "Environment",
    "EvaluationOptions",
    "Facts",
    "Failure",
    "Family",
    "Finding",
    "Group",
    "Heldout",
    "HotLine",
    "Init",
    "KernelCounters",
    "KernelProfile",
    "KernelResources",
    "Language",
    "Lesson",
    "MeasuredScore",
    "MeasuredTime",
    "Metric",
    "Model",
    "ModelCall",
    "ModelledScore",
    "ModelledTime",
    "Name",
    "Narrower",
    "Numbers",
    "Origin",
    "PassedOver",
    "Place",
    "Precision",
    "ProfileFacts",
    "ProfileSource",
    "Ratio",
    "Reach",
    "Reason",
    "Record",
    "Role",
    "RooflinePlace",
    "Run",
    "RunState",
    "SanitizerFacts",
    "Score",
    "Seed",
    "Severity",
    "Signature",
    "Span",
    "SpeedComparison",
    "StageResult",
    "StaticFacts",
    "Task",
    "TimingFacts",
    "Tolerance",
    "TorchMode",
    "Trial",
    "Twist",
    "Verdict",
    "VirtualFacts",
    "Work",
    "WorkFormulas",
    "describe_error",
    "score",
    "shorten_value",
]

if TYPE_CHECKING:
    from warpsmith.records.facts import FASTER_ABOVE
    from warpsmith.records.record import CHANCE
    from warpsmith.records.run import (
        ANSWERS,
        ASK,
        ELSEWHERE,
        GENERATION,
        HELPED,
        HURT,
        LESSON,
        NAME,
        PROPOSAL,
        REQUESTS,
    )

__getattr__ = lazy_members(__name__)

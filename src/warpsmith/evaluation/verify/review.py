"""Prompts for model reviewers, and the parsing of answers."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from string import Template
from typing import Any

from pydantic import Field, ValidationError

from warpsmith.base import find_json_objects
from warpsmith.languages.nvcc import CompileOptions
from warpsmith.llm import Prompt
from warpsmith.records import Candidate, Case, Direction, Finding, Group, Model, StageResult, Task

FOLDER = Path(__file__).parent / "prompts"
SHOWN_CASES, SHOWN_FINDINGS = 12, 8
SHOWN_SOURCE = 40_000  # characters
HIDDEN_PATH = re.compile(r"/\S*/(?=kernel\.cu)")  # where a compiler's folder happened to be says nothing
FENCED = re.compile(r"```(?:json)?[ \t]*\n(.*?)```", re.DOTALL)
WRONG = {"wrong", "fail", "incorrect", "bad", "reject", "no", "false"}
RIGHT = {"right", "pass", "correct", "good", "accept", "ok", "yes", "true"}
EXCERPT = 300


class ReviewerRole(StrEnum):
    """The question of a reviewer."""

    COMPILE = "compile"
    MEMORY = "memory"
    NUMERICAL = "numerical"
    CHEATING = "cheating"


class Review(Model):
    """A reviewer's answer."""

    role: ReviewerRole
    objects: bool
    confidence: float = Field(ge=0, le=1)
    line: int | None = None
    why: str = ""
    fix: str = ""


class UnusableReview(Model):
    """An answer without a usable verdict."""

    role: ReviewerRole
    error: str
    excerpt: str = ""


@dataclass(frozen=True)
class ReviewedKernel:
    """The kernel under review, with earlier results."""

    candidate: Candidate
    task: Task
    results: tuple[StageResult, ...] = ()


def review_prompt(subject: ReviewedKernel, role: ReviewerRole) -> Prompt:
    """Return the prompt for one reviewer."""
    user = "\n".join([_subject(subject), _text(role.value), _text("answer")])
    return Prompt(system=_text("system"), user=user, kind="review")


def panel_prompt(subject: ReviewedKernel, roles: Sequence[ReviewerRole] = tuple(ReviewerRole)) -> Prompt:
    """Return one prompt with all questions."""
    # The kernel is the longest part of a prompt and is paid for once.
    user = "\n".join([_subject(subject), *(_text(role.value) for role in roles), _text("answers")])
    return Prompt(system=_text("system"), user=user, kind="review")


def read_review(text: str, role: ReviewerRole) -> Review | UnusableReview:
    """Read an answer to one question."""
    # An answer may hold drafts before the final object, so the last object of the role counts.
    found = list(_objects(text))
    if not found:
        return _bad(role, "holds no JSON object", text)
    own = [one for one in found if one.get("role", role.value) == role.value]
    return _review(own[-1] if own else found[-1], role, text)


def read_panel(text: str, roles: Sequence[ReviewerRole] = tuple(ReviewerRole)) -> tuple[Review | UnusableReview, ...]:
    """Read an answer to all questions, one review each."""
    found = {str(one.get("role", "")).lower(): one for one in _objects(text)}
    return tuple(
        _review(found[role.value], role, text) if role.value in found else _bad(role, f"has no {role} verdict", text)
        for role in roles
    )


def objection(review: Review) -> str:
    """Return a reviewer's objection as one line."""
    where = f"line {review.line}: " if review.line else ""
    fix = f" Fix: {review.fix}" if review.fix else ""
    return f"{review.role} reviewer ({review.confidence:.0%} sure): {where}{review.why}{fix}"


def _subject(subject: ReviewedKernel) -> str:
    """Return the prompt's part on task and kernel."""
    task, candidate = subject.task, subject.candidate
    signature = task.signature(candidate.direction)
    return Template(_text("subject")).substitute(
        name=task.name,
        direction=candidate.direction.value,
        description=task.description,
        reference=task.source.strip(),
        arguments=", ".join(f"{one.name}: {one.kind.value}" for one in signature.arguments),
        results=", ".join(signature.results),
        cases=_cases(task),
        tolerance=_tolerance(task, candidate.direction),
        compile_line=_compile_line(subject),
        libraries=", ".join(task.libraries) or "none",
        findings=_findings(subject.results),
        source=_numbered(candidate),
    )


def _cases(task: Task) -> str:
    """Return the untimed cases as lines."""
    small = [case for case in task.cases if case.group is not Group.TIMING]
    lines = [_case(case) for case in small[:SHOWN_CASES]]
    if task.heldout is not None:
        reach = ", ".join(f"{name} {one.low} to {one.high}" for name, one in task.heldout.axes.items())
        types = ", ".join(task.heldout.dtypes)
        lines.append(f"- held out, drawn in secret: {reach}; {types}")
    return "\n".join(lines)


def _case(case: Case) -> str:
    """Return one case as a line."""
    axes = ", ".join(f"{name} = {size}" for name, size in case.axes.items())
    return f"- {case.name}: {axes}; {case.dtype}; {', '.join(case.families)} inputs"


def _tolerance(task: Task, direction: Direction) -> str:
    """Return the tolerance as a sentence."""
    bound = task.tolerance.of(direction)
    floors = ", ".join(f"{dtype} {floor:g}" for dtype, floor in bound.norm_floor.items())
    tf32 = "TF32 is allowed" if task.precision.tf32 else "TF32 is not allowed"
    return (
        f"elementwise {bound.factor:g} roundoffs of the element type, times the root of {bound.reduction}; by norm "
        f"{floors} of the result or {bound.norm_factor:g} times torch's own error; {tf32}; sums at least in "
        f"{task.precision.accumulate}."
    )


def _compile_line(subject: ReviewedKernel) -> str:
    """Return the compiler's command line."""
    flags = CompileOptions.of(subject.task).flags()
    macros = (f"-D{name}={value}" for name, value in sorted(subject.candidate.macros.items()))
    return " ".join(["nvcc", *flags, *macros, "kernel.cu"])


def _findings(results: Sequence[StageResult]) -> str:
    """Return earlier results as lines."""
    lines = [line for result in results for line in _said(result)]
    return "\n".join(lines) or "- nothing yet"


def _said(result: StageResult) -> Iterator[str]:
    """Yield one result and its findings as lines."""
    reason = f" ({result.reason})" if result.reason else ""
    detail = f": {HIDDEN_PATH.sub('', result.detail)}" if result.detail else ""
    yield f"- {result.stage}: {result.verdict}{reason}{detail}"
    findings: Sequence[Finding] = getattr(result.facts, "findings", ())
    for finding in findings[:SHOWN_FINDINGS]:
        where = f"line {finding.place.line}: " if finding.place else ""
        yield f"  - {where}{finding.checker}: {HIDDEN_PATH.sub('', finding.message)}"


def _numbered(candidate: Candidate) -> str:
    """Return the source with line numbers."""
    lines = candidate.source[:SHOWN_SOURCE].rstrip().split("\n")
    return "\n".join(f"{number:4} {line}" for number, line in enumerate(lines, 1))


def _objects(text: str) -> Iterator[Mapping[str, Any]]:
    """Yield every JSON object with a verdict."""
    blocks = FENCED.findall(text) or [text]
    for block in blocks:
        yield from (one for one in find_json_objects(block) if "verdict" in one)


def _review(found: Mapping[str, Any], role: ReviewerRole, text: str) -> Review | UnusableReview:
    """Return an object's review, or the reason without one."""
    word = str(found["verdict"]).strip().lower().rstrip(".")
    if word not in WRONG | RIGHT:
        return _bad(role, f"has the verdict {word[:40]!r}, neither right nor wrong", text)
    try:
        return Review(
            role=role,
            objects=word in WRONG,
            confidence=_share(found.get("confidence", 0.5)),
            line=_whole(found.get("line")),
            why=str(found.get("why") or ""),
            fix=str(found.get("fix") or ""),
        )
    except (ValidationError, ValueError, TypeError) as error:
        return _bad(role, f"cannot be read: {error}", text)


def _share(value: Any) -> float:
    """Return a confidence between 0 and 1."""
    # Models write 0.9, "0.9", "90 %" or 90 for the same confidence.
    number = float(str(value).strip().rstrip("%").strip())
    return number / 100 if number > 1 else number


def _whole(value: Any) -> int | None:
    """Return the first integer of a value, or None."""
    found = re.search(r"\d+", str(value)) if value is not None else None
    return int(found[0]) if found else None


def _bad(role: ReviewerRole, error: str, text: str) -> UnusableReview:
    """Return an unusable review."""
    what = "is empty" if not text.strip() else error
    return UnusableReview(role=role, error=f"The answer {what}.", excerpt=text.strip()[:EXCERPT])


@cache
def _text(name: str) -> str:
    """Return a prompt file's text."""
    return (FOLDER / f"{name}.md").read_text()

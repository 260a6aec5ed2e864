"""Prompts from the templates in prompts/."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from string import Template

from warpsmith.evaluation.check import EASY_FACTOR, EASY_ROUNDOFFS
from warpsmith.languages import LanguageSpec, find_language, language_of
from warpsmith.languages.cuda import format_macros
from warpsmith.llm import Prompt
from warpsmith.records import Direction, Language, Task
from warpsmith.search.proposals.evidence import describe_profile
from warpsmith.search.proposals.operators import OPERATORS, Operator
from warpsmith.search.selection import RankedKernel

FOLDER = Path(__file__).parent / "prompts"
MOST_SOURCE = 24_000  # characters of a kernel that a prompt shows
BACKTICKS = re.compile("`+")


@dataclass(frozen=True)
class PromptContext:
    """The parts that all prompts of a run share: task, direction, GPU, language."""

    task: Task
    direction: Direction
    gpu: str
    language: str = Language.TORCH  # that kernels are asked for in

    @cached_property
    def spec(self) -> LanguageSpec:
        """The language of the kernels."""
        return find_language(self.language)

    @cached_property
    def words(self) -> str:
        """The part of a prompt that describes the task and the GPU."""
        return _task(self)


@dataclass(frozen=True)
class BrokenKernel:
    """A failed kernel with the evidence of its failure."""

    source: str
    evidence: str


@dataclass(frozen=True)
class PromptMaterial:
    """The kernels, the idea and the lessons of one prompt."""

    context: Sequence[RankedKernel] = ()
    parents: Sequence[RankedKernel] = ()
    idea: str = ""
    lessons: Sequence[str] = ()
    broken: BrokenKernel | None = None


def proposal_prompt(subject: PromptContext, operator: str, material: PromptMaterial) -> Prompt:
    """Return the prompt of an operator: task, GPU, kernels from slow to fast, profile, lessons, instruction."""
    row = OPERATORS[operator]
    # The parts that all prompts of a run share come first; the instruction and the form of the answer come last.
    parts = [subject.words]
    shown = material.context if row.context else ()
    if shown:
        parts.append(_fill("kernels", kernels="\n".join(_kernel(n, one) for n, one in enumerate(shown, 1))))
    numbers = _numbers(shown, material.parents)
    if row.parents and material.parents:
        profile = describe_profile(material.parents[0].record)
        parts.append(_fill("profile", number=str(numbers[0]), profile=profile))
    parts += _lessons(material.lessons)
    parts.append(_instruction(row, material, numbers))
    parts.append(_fill("answer_patch") if row.patch else _fill("answer", fence=subject.spec.fences[0]))
    return Prompt(system=_fill("system", rules=subject.spec.rules), user="\n".join(parts), kind="propose")


def translation_prompt(subject: PromptContext, lessons: Sequence[str] = (), last: BrokenKernel | None = None) -> Prompt:
    """Return the prompt for a first kernel, or for the next attempt after `last`."""
    words = {"broken": _shown(last.source), "evidence": last.evidence} if last else {}
    what = _fill("retry" if last else "translate", **words)
    parts = [subject.words, *_lessons(lessons), what, _fill("answer", fence=subject.spec.fences[0])]
    return Prompt(system=_fill("system", rules=subject.spec.rules), user="\n".join(parts), kind="translate")


def summary_prompt(broken: BrokenKernel) -> Prompt:
    """Return the prompt for a summarized failure."""
    user = _fill("summarize", broken=_shown(broken.source), evidence=broken.evidence)
    return Prompt(
        system="You read CUDA kernels and say precisely what is wrong with them.", user=user, kind="summarize"
    )


def _task(subject: PromptContext) -> str:
    task = subject.task
    libraries = f"Libraries it may call: {', '.join(task.libraries)}.\n" if task.libraries else ""
    return _fill(
        "task",
        name=task.name,
        direction=subject.direction.value,
        description=task.description,
        source=task.source.strip(),
        skeleton=subject.spec.skeleton(task, subject.direction).strip(),
        fence=subject.spec.fences[0],
        tolerance=tolerance(task, subject.direction),
        libraries=libraries,
        gpu=subject.gpu,
    )


def tolerance(task: Task, direction: Direction) -> str:
    """Return the error budget of a direction as a formula for prompts."""
    one = task.tolerance.of(direction)
    precision = "TF32 is allowed" if task.precision.tf32 else "no TF32 and no lower precision than the inputs have"
    floors = ", ".join(f"{share:g} ({dtype})" for dtype, share in one.norm_floor.items())
    return (
        f"with e the float64 reference, u the unit roundoff of the element type and v that of float32, |found - e| <= "
        f"{one.factor:g} * (u + v * sqrt({one.reduction})) * (|e| + rms(e)) elementwise, and by norm within "
        f"{one.norm_factor:g} times torch's own error or {floors} of e's norm (plain normal inputs in 16-bit types: "
        f"{EASY_FACTOR:g} times or {EASY_ROUNDOFFS:g} u); {precision}; accumulate in "
        f"{task.precision.accumulate}."
    )


def _kernel(number: int, member: RankedKernel) -> str:
    """Return one kernel with its number and gain."""
    candidate = member.record.candidate
    macros = f", tuned to {format_macros(candidate.macros)}" if candidate.macros else ""
    title = f"{member.name or 'kernel'}, {member.gain:.2f}× the first kernel{_over_torch(member)}{macros}"
    return _fill("kernel", number=str(number), title=title, source=_shown(candidate.source))


def _over_torch(member: RankedKernel) -> str:
    """Return the measured speedup over torch, if there is one."""
    found = member.fitness.score
    return f", {found.value:.2f}× torch's best" if found.kind == "measured" else ""


def _numbers(shown: Sequence[RankedKernel], parents: Sequence[RankedKernel]) -> list[int]:
    """Return the numbers of the parents among the shown kernels."""
    places = {one.id: place for place, one in enumerate(shown, 1)}
    # A kernel that left the context has no number; the first one stands for it.
    return [places.get(one.id, 1) for one in parents]


def _instruction(row: Operator, material: PromptMaterial, numbers: Sequence[int]) -> str:
    """Return the operator's instruction."""
    words = {"idea": material.idea, "number": str(numbers[0]) if numbers else "", "other": ""}
    if len(numbers) > 1:
        words["other"] = str(numbers[1])
    if material.broken is not None:
        words |= {"broken": _shown(material.broken.source), "evidence": material.broken.evidence}
    return _fill(row.name, **words)


def _lessons(lessons: Sequence[str]) -> list[str]:
    """Return the prompt's part with lessons."""
    return [_fill("lessons", lessons="\n".join(f"- {lesson}" for lesson in lessons))] if lessons else []


def _shown(source: str) -> str:
    """Return a kernel in a fence that no line of it can close, so that its text cannot act as the prompt's."""
    shown, left = source[:MOST_SOURCE].strip(), len(source) - MOST_SOURCE
    spec = find_language(language_of(source))
    more = f"\n{spec.comment} {left} more characters are not shown" if left > 0 else ""
    # A fence longer than any run of backticks in the text cannot be closed from inside.
    fence = "`" * max([3, *(len(run) + 1 for run in BACKTICKS.findall(shown))])
    return f"{fence}{spec.fences[0]}\n{shown}{more}\n{fence}"


def _fill(template: str, /, **words: str) -> str:
    """Fill a template. Raise KeyError for missing fields."""
    # substitute raises for a missing field, while safe_substitute would send `$name` to the model.
    return _template(template).substitute(words)


@cache
def _template(name: str) -> Template:
    return Template((FOLDER / f"{name}.md").read_text())

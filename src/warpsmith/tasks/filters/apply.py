"""All filters on one task, in order of worth; what there is no time for is skipped with the reason."""

from collections.abc import Iterator, Sequence

from warpsmith.records import Case, Role
from warpsmith.tasks.filters.baseline import constant_baseline
from warpsmith.tasks.filters.gradient import gradient
from warpsmith.tasks.filters.graph import constant_result, dead_code, inefficiency, repeated_work
from warpsmith.tasks.filters.impact import impact, shaken, targets
from warpsmith.tasks.filters.numbers import change
from warpsmith.tasks.filters.opinion import ABSENT
from warpsmith.tasks.filters.outputs import axis_variation, output_deviation, output_range
from warpsmith.tasks.filters.plan import Clock, judged_cases, light_case, pair, trials
from warpsmith.tasks.filters.report import Filter, FilterReport, FilterResult, Sense, Skip
from warpsmith.tasks.filters.subject import FilteredProgram, Sample
from warpsmith.tasks.filters.thresholds import REPEAT
from warpsmith.tasks.filters.trace import trace
from warpsmith.tasks.inputs import Values
from warpsmith.tasks.reference import TaskProgram

SECONDS = 20.0  # optional measurements stop when so much has been spent on one task
DRAWN = 1 << 27  # elements of a case's arguments that are still drawn: half a GiB of float32, about a second
YOUNG_S = 0.5  # until then further draws are made
SLOW_S = 0.5  # a forward call that takes longer is not made dozens of times
PAIR = 2  # draws that every report needs: a base, and another to compare it with


def apply_filters(program: TaskProgram, seconds: float = SECONDS) -> FilterReport:
    """Return the report of all filters on one task.

    This runs the task's code: the caller has confined this process or trusts the task.
    """
    clock = Clock(seconds)
    subject = FilteredProgram(program, clock)
    cases = _cases(subject)
    samples = _samples(subject, cases)
    answers = list(_answers(subject, samples))
    return FilterReport(
        task=program.task.name,
        origin=program.task.origin,
        results=tuple(answer for answer in answers if isinstance(answer, FilterResult)),
        skipped=(*(answer for answer in answers if isinstance(answer, Skip)), ABSENT),
        notes=(*_instead(program, cases[0]), *subject.notes()),
        seconds=clock.spent_s,
    )


def _cases(subject: FilteredProgram) -> list[Case]:
    """The cases to judge by: the author's, or the lightest where those are too large to draw."""
    found, light = judged_cases(subject.program.task), light_case(subject.program.task)
    return found if found[0] == light or subject.elements(found[0]) <= DRAWN else [light]


def _instead(program: TaskProgram, case: Case) -> tuple[str, ...]:
    meant = judged_cases(program.task)[0].name
    return () if case.name == meant else (f"case '{meant}' is too large to draw; case '{case.name}' stands for it",)


def _samples(subject: FilteredProgram, cases: Sequence[Case]) -> list[Sample]:
    """The base, another seed of it, and further draws while they are cheap."""
    found: list[Sample] = []
    for place, trial in enumerate(trials(cases)):
        if place < PAIR or subject.clock.spent_s < YOUNG_S:
            found.append(subject.sample(trial))
    return found


def _answers(subject: FilteredProgram, samples: Sequence[Sample]) -> Iterator[FilterResult | Skip]:
    base, other = samples[:PAIR]
    yield output_range(subject, samples)
    yield output_deviation(subject, samples)
    axes = axis_variation(subject, samples)
    yield axes or Skip(filter=Filter.AXIS_VARIATION, reason="the output has no axis longer than one")
    yield constant_baseline(subject, base, other)
    base, other = _light(subject, samples)
    yield from _graph_answers(subject, base, other)
    yield impact(subject, base, other, Filter.INPUT_IMPACT)
    yield impact(subject, base, other, Filter.PARAMETER_IMPACT)
    yield gradient(subject, base)


def _light(subject: FilteredProgram, samples: Sequence[Sample]) -> Sequence[Sample]:
    """The pair for filters that call often: the same one, or a lighter case's where that one is slow."""
    case = light_case(subject.program.task)
    if subject.clock.forward_s <= SLOW_S or case.name == samples[0].trial.case.name:
        return samples[:PAIR]
    subject.clock.forward_s = 0.0
    return [subject.sample(trial) for trial in pair(case)]


def _graph_answers(subject: FilteredProgram, base: Sample, other: Sample) -> Iterator[FilterResult | Skip]:
    first = trace(subject, base.arguments)
    yield _repeatability(change(base.outputs, first.values), base)
    yield dead_code(first)
    yield repeated_work(first)
    if not subject.clock.allows(2):
        reason = f"one forward call takes {subject.clock.forward_s:.1f} s; there is no time for a second trace"
        yield from (Skip(filter=name, reason=reason) for name in (Filter.CONSTANT_RESULT, Filter.INEFFICIENCY))
        return
    second = trace(subject, _moved_everywhere(subject, base, other))
    yield constant_result(first, second)
    yield inefficiency(first, second)


def _moved_everywhere(subject: FilteredProgram, base: Sample, other: Sample) -> Values:
    """The other draw, with parameters that both draws share (zero biases, unit gains) changed as well."""
    arguments = other.arguments
    for target in targets(subject, arguments):
        mine = target.get(arguments)
        if target.role is Role.PARAMETER and mine.equal(target.get(base.arguments)):
            arguments = target.put(arguments, shaken(mine))
    return arguments


def _repeatability(value: float, base: Sample) -> FilterResult:
    return FilterResult(
        filter=Filter.REPEATABILITY,
        passed=value <= REPEAT,
        value=value,
        threshold=REPEAT,
        sense=Sense.AT_MOST,
        detail=f"two calls with the same arguments differ by {value:.3g} of the largest output in {base.where}",
    )

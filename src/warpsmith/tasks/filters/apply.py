"""All filters on one task, the most useful ones first."""

from collections.abc import Iterator, Sequence

from warpsmith.records import Case, Role
from warpsmith.tasks.filters.baseline import check_trivial_answers
from warpsmith.tasks.filters.gradient import check_gradients
from warpsmith.tasks.filters.graph import find_constant_results, find_dead_code, find_inefficiencies, find_repeated_work
from warpsmith.tasks.filters.impact import check_impact, list_tensors, perturb_values
from warpsmith.tasks.filters.numbers import relative_change
from warpsmith.tasks.filters.opinion import ABSENT
from warpsmith.tasks.filters.outputs import check_axis_variation, check_output_deviation, check_output_range
from warpsmith.tasks.filters.plan import Clock, author_cases, light_case, pair_of_seeds, plan_samples
from warpsmith.tasks.filters.report import Filter, FilterReport, FilterResult, Sense, Skip
from warpsmith.tasks.filters.subject import FilteredProgram, Sample
from warpsmith.tasks.filters.thresholds import REPEAT
from warpsmith.tasks.filters.trace import trace_calls
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
    cases = _choose_cases(subject)
    samples = _draw_samples(subject, cases)
    # A filter without a result is a Skip with its reason, never a pass.
    answers = list(_run_filters(subject, samples))
    return FilterReport(
        task=program.task.name,
        origin=program.task.origin,
        results=tuple(answer for answer in answers if isinstance(answer, FilterResult)),
        skipped=(*(answer for answer in answers if isinstance(answer, Skip)), ABSENT),
        notes=(*_describe_replacement(program, cases[0]), *subject.notes()),
        seconds=clock.spent_s,
    )


def _choose_cases(subject: FilteredProgram) -> list[Case]:
    """Return the author's cases, or the lightest case if those are too large to draw."""
    found, light = author_cases(subject.program.task), light_case(subject.program.task)
    return found if found[0] == light or subject.count_elements(found[0]) <= DRAWN else [light]


def _describe_replacement(program: TaskProgram, case: Case) -> tuple[str, ...]:
    """Return a note about a replaced case."""
    meant = author_cases(program.task)[0].name
    return () if case.name == meant else (f"case '{meant}' is too large to draw; case '{case.name}' stands for it",)


def _draw_samples(subject: FilteredProgram, cases: Sequence[Case]) -> list[Sample]:
    """Draw two samples, and more while cheap."""
    found: list[Sample] = []
    for place, trial in enumerate(plan_samples(cases)):
        # The pair is always drawn: every filter compares two samples.
        if place < PAIR or subject.clock.spent_s < YOUNG_S:
            found.append(subject.draw_sample(trial))
    return found


def _run_filters(subject: FilteredProgram, samples: Sequence[Sample]) -> Iterator[FilterResult | Skip]:
    """Yield the results of all filters in order."""
    base, other = samples[:PAIR]
    # Cheap filters come first, so that a slow task still gets their answers.
    yield check_output_range(subject, samples)
    yield check_output_deviation(subject, samples)
    axes = check_axis_variation(subject, samples)
    yield axes or Skip(filter=Filter.AXIS_VARIATION, reason="the output has no axis longer than one")
    yield check_trivial_answers(subject, base, other)
    base, other = _light_samples(subject, samples)
    yield from _run_graph_filters(subject, base, other)
    yield check_impact(subject, base, other, Filter.INPUT_IMPACT)
    yield check_impact(subject, base, other, Filter.PARAMETER_IMPACT)
    yield check_gradients(subject, base)


def _light_samples(subject: FilteredProgram, samples: Sequence[Sample]) -> Sequence[Sample]:
    """Return two samples of a case with fast calls."""
    case = light_case(subject.program.task)
    if subject.clock.forward_s <= SLOW_S or case.name == samples[0].trial.case.name:
        return samples[:PAIR]
    # The lighter case has its own speed.
    subject.clock.forward_s = 0.0
    return [subject.draw_sample(trial) for trial in pair_of_seeds(case)]


def _run_graph_filters(subject: FilteredProgram, base: Sample, other: Sample) -> Iterator[FilterResult | Skip]:
    """Yield the results of filters that read traces."""
    first = trace_calls(subject, base.arguments)
    yield _check_repeatability(relative_change(base.outputs, first.values), base)
    yield find_dead_code(first)
    yield find_repeated_work(first)
    if not subject.clock.allows(2):
        reason = f"one forward call takes {subject.clock.forward_s:.1f} s; there is no time for a second trace"
        yield from (Skip(filter=name, reason=reason) for name in (Filter.CONSTANT_RESULT, Filter.INEFFICIENCY))
        return
    # The second trace has other values everywhere: a result that is equal in both does not depend on them.
    second = trace_calls(subject, _change_all_values(subject, base, other))
    yield find_constant_results(first, second)
    yield find_inefficiencies(first, second)


def _change_all_values(subject: FilteredProgram, base: Sample, other: Sample) -> Values:
    """Return the other sample's values, with parameters that both samples share changed as well.

    Shared parameters are, for example, zero biases and unit gains.
    """
    arguments = other.arguments
    for target in list_tensors(subject, arguments):
        mine = target.read_from(arguments)
        if target.role is Role.PARAMETER and mine.equal(target.read_from(base.arguments)):
            arguments = target.replace_in(arguments, perturb_values(mine))
    return arguments


def _check_repeatability(value: float, base: Sample) -> FilterResult:
    """Return the result for the change between two equal calls."""
    return FilterResult(
        filter=Filter.REPEATABILITY,
        passed=value <= REPEAT,
        value=value,
        threshold=REPEAT,
        sense=Sense.AT_MOST,
        detail=f"two calls with the same arguments differ by {value:.3g} of the largest output in {base.description}",
    )

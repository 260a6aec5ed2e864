"""A report's page as a document of sections."""

from collections.abc import Iterator, Sequence

from warpsmith.base import pluralize
from warpsmith.records import Run
from warpsmith.report.blocks import Attachment, Block, Code, Document, Figure, Paragraph, Section, Table, Tree
from warpsmith.report.page import BestKernel, CaseRow, ReportPage, RunPage, StageCount
from warpsmith.report.roofline import Mark, roofline_svg
from warpsmith.report.svg import Bar, Dot, bars_svg, progress_svg
from warpsmith.report.words import (
    SHORT,
    format_error,
    format_interval,
    format_percent,
    format_speedup,
    format_us,
    lines_of,
    macro_flags,
    page_footer,
)

KINDS = {"pass": "good", "fail": "bad", "quarantine": "odd", "fault": "odd"}
MOST_BARS = 24


def report_document(page: ReportPage) -> Document:
    """Build the document of a report on runs."""
    names = ", ".join(one.run.name for one in page.runs)
    sections = [section for one in page.runs for section in _run(one)]
    return Document(f"warpsmith: {names}", tuple(sections), page_footer(page.made, page.package))


def _run(page: RunPage) -> Iterator[Section]:
    yield Section(page.run.name, tuple(_head(page)), level=1)
    if page.progress.points:
        yield Section("Progress", tuple(_progress(page)))
    if page.funnel:
        yield Section("How evaluations ended", tuple(_funnel(page)))
    if page.cases:
        yield Section("Times a case", tuple(_cases(page)))
        yield Section("Roofline", tuple(_roofline(page)))
    if page.lineage:
        yield Section("Lineage", (Paragraph(_tree_words(page)), Tree(page.lineage)))
    yield Section("Verifiers", tuple(_verifiers(page)))
    yield Section("Costs", tuple(_costs(page)))
    if page.lessons:
        yield Section("Lessons", (_lessons(page),))
    if page.best:
        yield Section("Best kernel", tuple(_kernel(page.best)))
        yield Section("Environment, and grading it again", tuple(_environment(page.best, page.run)))
    yield Section("Settings", tuple(_settings(page)))


def _head(page: RunPage) -> Iterator[Block]:
    run, minutes = page.run, _minutes(page)
    yield Paragraph(page.headline.sentence, "strong")
    if page.headline.kind == "modelled":
        # A modelled time must not be read as a measured one, so the sentence stands at the top.
        yield Paragraph("Times of this run are modelled by the virtual GPU. None of them was measured.", "soft")
    spent = f"{pluralize(page.evaluations, 'evaluation')}, {page.usd:.2f} US dollars{minutes}"
    yield Paragraph(f"{run.task}, {run.direction}, on {run.device}. {spent}. {run.stands}.")
    if not page.evaluations:
        yield Paragraph(f"Nothing was evaluated yet. {run.go_on} goes on.")
    yield from (Paragraph(f"Left out: {text}", "soft") for text in page.left_out)


def _minutes(page: RunPage) -> str:
    run = page.run
    return f", {(run.finished - run.started).total_seconds() / 60:.1f} minutes" if run.finished else ""


def _progress(page: RunPage) -> Iterator[Block]:
    progress = page.progress
    down = "; lower is better" if progress.kind == "modelled" else "; higher is better"
    words = [f"{point.kernel} {point.operator}: {point.value:.4g} {progress.unit}" for point in progress.points]
    pairs = list(zip(progress.points, words, strict=True))
    by_number = [Dot(point.evaluation, point.value, text, point.better) for point, text in pairs]
    caption = f"{pluralize(progress.scored, 'evaluation')} with a score{down}. The line is the best so far."
    yield Figure(progress_svg(by_number, "evaluations", progress.unit), caption)
    paid = progress.points[-1].usd > 0
    if paid:
        by_dollars = [Dot(point.usd, point.value, text, point.better) for point, text in pairs]
        yield Figure(progress_svg(by_dollars, "US dollars", progress.unit), "The same over what models cost.")
    # Seeds and the tuner cost nothing, so a chart over dollars would be one vertical line.
    yield _steps(page, paid)
    if not paid:
        yield Paragraph("No model was paid: progress over dollars stands at 0.", "soft")


def _steps(page: RunPage, paid: bool) -> Table:
    """Return a table of the evaluations that improved on all before, the last ones if there are many."""
    unit, steps = page.progress.unit, [point for point in page.progress.points if point.better]
    rows = [
        (str(p.evaluation), *([f"{p.usd:.3f}"] if paid else []), f"{p.value:.4g}", p.kernel, p.operator) for p in steps
    ]
    # The last improvements are the largest ones.
    columns = ("evaluation", *(("US dollars",) if paid else ()), unit, "kernel", "operator")
    return Table(columns, tuple(rows[-MOST_BARS:]), frozenset({"evaluation", "US dollars", unit}))


# Proposals that never became evaluations are counted too.
def _funnel(page: RunPage) -> Iterator[Block]:
    total = sum(step.count for step in page.funnel)
    bars = [
        Bar(_step_name(step), step.count, str(step.count), KINDS.get(step.verdict, "plain")) for step in page.funnel
    ]
    caption = (
        f"How {pluralize(total, 'evaluation')} ended, proposals that came to none among them, in the order of stages."
    )
    yield Figure(bars_svg(bars[:MOST_BARS], "verdicts by stage and reason"), caption)
    rows = tuple((step.stage, step.verdict, step.reason or "–", str(step.count)) for step in page.funnel)
    yield Table(("ended at", "verdict", "reason", "count"), rows, frozenset({"count"}))


def _step_name(step: StageCount) -> str:
    return f"{step.stage}: {step.reason or step.verdict}"


def _cases(page: RunPage) -> Iterator[Block]:
    yield case_table(page.cases)
    yield Figure(_case_bars(page), _bars_caption(page.cases))
    if page.checks:
        rows = tuple((row.group, str(row.cases), str(row.calls), format_error(row.worst)) for row in page.checks)
        yield Paragraph("Results that were checked, by what the cases are for:", "soft")
        columns = ("cases for", "cases", "calls", "worst error / bound")
        yield Table(columns, rows, frozenset(columns[1:]))
    if page.gap:
        yield Paragraph(f"Generalization: {page.gap.sentence}")


def _case_bars(page: RunPage) -> str:
    """Draw measured speedups, or shares of the roofline if times are modelled; held-out cases differ in colour."""
    measured = any(case.speedup for case in page.cases)
    values = [
        (case, case.speedup.value if case.speedup else 0.0) if measured else (case, case.roofline or 0.0)
        for case in page.cases
    ]
    # Held-out cases have a colour of their own, since the search never saw them.
    show = format_speedup if measured else format_percent
    bars = [Bar(case.name, value, show(value), "odd" if case.group == "heldout" else "good") for case, value in values]
    return bars_svg(bars[:MOST_BARS], "cases", None if measured else 1.0)


def _bars_caption(cases: tuple[CaseRow, ...]) -> str:
    what = (
        "Speedup over torch's best mode" if any(case.speedup for case in cases) else "Share of the roofline, modelled"
    )
    return f"{what}, a bar a case. Held-out cases, which the search never saw, have a colour of their own."


def _roofline(page: RunPage) -> Iterator[Block]:
    facts = page.profile
    if facts is None or facts.ceilings is None:
        yield Paragraph(
            f"This kernel was not profiled. warpsmith report {page.run.name} --profile does it and draws its place "
            "under the roofline; shares of the roofline a case stand above."
        )
        # The baselines of the profiled case only: other cases have another intensity.
        return
    same = next((case for case in page.cases if case.name == facts.case), None)
    marks = [Mark(name, us) for name, us in same.baselines.items()] if same else []
    kind = "modelled" if facts.time is not None and facts.time.kind == "modelled" else "measured"
    diamonds = " Diamonds are torch's modes." if marks else " Torch was not measured on this case."
    caption = f"The best kernel on case {facts.case}; times {kind}.{diamonds}"
    yield Figure(roofline_svg(facts, marks, f"{page.run.task} {page.run.direction}"), caption, wide=True)


def _tree_words(page: RunPage) -> str:
    line = sum(node.line for node in page.lineage)
    return (
        f"{pluralize(len(page.lineage), 'kernel')} by their first parent; {line} of them lead to the best, marked ★. "
        "A kernel opens to its children and to what changed against its parent."
    )


def _verifiers(page: RunPage) -> Iterator[Block]:
    found = page.verifiers
    saved = f", about {found.saved_s:.0f} s of evaluation saved" if found.saved_s else ""
    yield Paragraph(
        f"{found.stopped} stopped before the check{saved}; {found.reached} came to the check, {found.missed} of them "
        "failed it."
    )
    if page.stages:
        columns = ("stage", "seen", "passed", "failed", "quarantined", "skipped", "our faults", "seconds each")
        rows = tuple(
            (
                *(row.stage, str(row.seen), str(row.passed), str(row.failed), str(row.quarantined)),
                *(str(row.skipped), str(row.faults), f"{row.seconds / row.seen:.2f}" if row.seen else "–"),
            )
            for row in page.stages
        )
        yield Table(columns, rows, frozenset(columns[1:]))


def _costs(page: RunPage) -> Iterator[Block]:
    if not page.calls:
        yield Paragraph("No model was asked: seeds and tuner were the whole search.")
        return
    columns = ("model", "operator", "calls", "tokens in", "tokens out", "seconds", "US dollars")
    rows = [
        (
            *(one.model, one.operator or "–", str(one.calls), str(one.input_tokens), str(one.output_tokens)),
            *(f"{one.seconds:.0f}", f"{one.usd:.4f}"),
        )
        for one in page.calls
    ]
    # The sum over models is the run's own total, which also contains requests without an answer.
    total = ("all", "", str(sum(one.calls for one in page.calls)), "", "", "", f"{page.usd:.4f}")
    yield Table(columns, (*rows, total), frozenset(columns[2:]))


def _lessons(page: RunPage) -> Table:
    rows = tuple(
        (one.what, f"{one.gain:.2f}× its parent" if one.gain is not None else f"failed: {one.fault}")
        for one in page.lessons
    )
    return Table(("what was tried", "what came of it"), rows)


def _kernel(best: BestKernel) -> Iterator[Block]:
    macros = f", compiled with {macro_flags(best.macros)}" if best.macros else ""
    yield Paragraph(f"{best.candidate[:SHORT]}, {best.language} style{macros}.")
    if best.profile:
        yield Code(best.profile)
    marks = {line.place.line: f"{line.share:.0%} of {line.of}" for line in best.hot}
    if marks:
        yield Paragraph("Lines where its time goes are marked with their share.", "soft")
    lines = pluralize(len(lines_of(best.source)), "line")
    yield Code(best.source, marks, numbered=True, title=f"Source, {lines}")


def _environment(best: BestKernel, run: Run) -> Iterator[Block]:
    where, seeds_drawn = best.record.environment, best.record.options.seeds
    confined = ", ".join(where.confined.achieved) or "nothing"
    missing = f"; missing: {', '.join(where.confined.missing)}" if where.confined.missing else ""
    seeds = f"{', '.join(map(str, seeds_drawn))} (drawn at grading)" if seeds_drawn else ""
    pairs = (
        ("device", where.device),
        ("hardware", where.hardware),
        ("driver", where.driver),
        ("toolchain", where.toolchain),
        ("torch", where.torch),
        ("python", where.python),
        ("clocks", f"{where.clocks_mhz[0]} MHz SM, {where.clocks_mhz[1]} MHz memory" if where.clocks_mhz else ""),
        ("throttling", ", ".join(where.throttling)),
        ("confinement", f"{confined}{missing}"),
        ("package", where.package),
        ("task version", best.record.task_version),
        ("seeds", seeds),
    )
    # The first command needs the page only; the others need the archive.
    yield Table(("what", "value"), tuple(pair for pair in pairs if pair[1]))
    again, *here = best.commands
    yield Paragraph("To grade it again on any machine, with fresh secret seeds, save the record and:")
    yield Attachment(f"{run.name}.record.json", best.record.text())
    yield Code(again)
    yield Paragraph("Where the archive is:")
    yield Code("\n".join(here))


def _settings(page: RunPage) -> Iterator[Block]:
    run = page.run
    if run.command:
        yield Code(run.command)
    rows = [*{"seed": str(run.seed), **run.settings}.items(), ("started", f"{run.started:%Y-%m-%d %H:%M:%S} UTC")]
    rows += [("finished", f"{run.finished:%Y-%m-%d %H:%M:%S} UTC")] if run.finished else []
    yield Table(("setting", "value"), tuple(rows))


def case_table(cases: Sequence[CaseRow]) -> Table:
    """Build a table with a row per case and a column per measured mode of torch."""
    # The call time is measured on a GPU only, so the column is left out elsewhere.
    modes = tuple(dict.fromkeys(mode for case in cases for mode in case.baselines))
    calls = any(case.call_us is not None for case in cases)
    head, told = ("case", "for", "shape", "type"), ("speedup", "of roofline")
    columns = (*head, "time", *(("call",) if calls else ()), *told, *modes, "error / bound")
    rows = tuple(_case_row(case, modes, calls) for case in cases)
    return Table(columns, rows, frozenset(columns[len(head) :]))


def _case_row(case: CaseRow, modes: Sequence[str], calls: bool) -> tuple[str, ...]:
    ratio = case.speedup
    fast = f"{format_interval(ratio.value, ratio.low, ratio.high)} {case.claim or ''}".strip() if ratio else "–"
    call = (format_us(case.call_us),) if calls else ()
    torch = tuple(format_us(case.baselines.get(mode)) for mode in modes)
    head = (case.name, case.group, case.shape, case.dtype, _case_time(case))
    return *head, *call, fast, format_percent(case.roofline), *torch, format_error(case.error)


def _case_time(case: CaseRow) -> str:
    """Format the median with its measured spread."""
    if case.kind == "modelled":
        return f"{format_us(case.us)} modelled"
    if case.low_us is None or case.high_us is None:
        return format_us(case.us)
    return f"{format_us(case.us)} ({case.low_us:.4g}–{case.high_us:.4g})"

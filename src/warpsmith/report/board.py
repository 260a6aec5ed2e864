"""The leaderboard as a document."""

from collections.abc import Iterator, Sequence

from warpsmith.base import geomean, pluralize
from warpsmith.records import MODES, SpeedComparison
from warpsmith.report.blocks import Block, Code, Document, Paragraph, Section, Table
from warpsmith.report.document import case_table
from warpsmith.report.page import SuitePage, SuiteRow
from warpsmith.report.words import (
    format_error,
    format_interval,
    format_percent,
    format_speedup,
    format_us,
    macro_flags,
    page_footer,
)

SPEEDS = (
    "Speedups are measured against torch, geometric means over the timing cases: with its interval the one that "
    "counts, against torch's best mode of each case, then those against each mode. A modelled time is of the virtual "
    "GPU, is never measured and claims no speedup."
)
LIMITS = (
    "Times and shares of the roofline are geometric means over the timing cases. The roofline is what was measured on "
    "the GPU: memory by copies of gigabytes, products by torch's own of that element type. A share may be above 100 %: "
    "of what a shorter kernel writes, some still lies in the L2 when it ends, and a product of float32 that is made of "
    "three of TF32 is not bound by the float32 units. Device time is what the GPU works; "
    "call time is how long a call keeps its caller, who does not wait for the GPU. Checked: dev cases that were right, "
    "and the largest error over its bound. Held-out shapes are drawn at grading from a secret seed; held-out over "
    "timing is the generalization gap, of those near a timing case over that case where there are some: near 1, the "
    "gain is not of the seen shapes only."
)
CASES = "Times are medians, with the 5th to the 95th percentile of single calls; speedups have their interval."


def suite_document(page: SuitePage) -> Document:
    """Build the document of the leaderboard."""
    filled = [row for row in page.rows if row.kind != "none"]
    sections = [Section("Suite", tuple(_speeds(page, filled)), level=1)]
    if filled:
        sections.append(Section("Times, roofline, held-out shapes", (Paragraph(LIMITS), _limits(filled))))
        sections.append(Section("Times a case", (Paragraph(CASES),)))
    sections += [Section(f"{row.task} {row.direction}", tuple(_kernel(row)), level=3) for row in filled]
    return Document("warpsmith: suite", tuple(sections), page_footer(page.made, page.package))


def _speeds(page: SuitePage, filled: Sequence[SuiteRow]) -> Iterator[Block]:
    there = f"{len(filled)} of {pluralize(len(page.rows), 'direction')} of tasks have a right and timed kernel"
    yield Paragraph(f"{there} in {page.source}. {SPEEDS}")
    yield from (Paragraph(text, "strong") for text in _means(filled))
    yield _speed_table(page.rows)
    yield from (Paragraph(text) for text in _list_reservations(filled))
    yield from (Paragraph(text, "soft") for text in page.left_out)
    if page.command:
        yield Paragraph("Made by this command, from the records alone:")
        yield Code(page.command)


def _means(rows: Sequence[SuiteRow]) -> Iterator[str]:
    """Yield one sentence per direction with the geometric mean of all speedups."""
    for direction in dict.fromkeys(row.direction for row in rows):
        some = [row for row in rows if row.direction == direction and row.best]
        if some:
            kernels, every = pluralize(len(some), "kernel"), all(_is_complete(row) for row in some)
            # Without a time of every mode, the best mode may be missing, so the sentence must not claim it.
            best = "torch's best mode" if every else "the best of the modes of torch that were measured"
            mean = geomean([row.best for row in some if row.best])
            yield f"{direction}: {mean:.3f}× {best}, the geometric mean of {kernels}."


def _is_complete(row: SuiteRow) -> bool:
    """Return whether the kernel was compared with every mode of torch."""
    return not set(MODES) - set(row.against)


def _list_reservations(rows: Sequence[SuiteRow]) -> Iterator[str]:
    """Yield the kernels that torch beats, that are inconclusive, or that were measured incompletely."""
    measured = [row for row in rows if row.kind == "measured"]
    slower = [row for row in measured if row.claim is SpeedComparison.SLOWER]
    unsure = [row for row in measured if row.claim is SpeedComparison.INCONCLUSIVE]
    partly = [row for row in measured if not _is_complete(row)]
    search = [row for row in measured if row.tier == "search"]
    older = [row for row in measured if row.older]
    for text, which in (
        ("Torch's best mode is faster", slower),
        ("Neither is surely faster", unsure),
        ("Not every mode of torch was measured, so the best one may be missing", partly),
        ("Measured as a search does, against baselines that may be of another hour", search),
        ("Evaluated before the task was changed, so that its inputs and bounds may be stricter now", older),
    ):
        # "all of them" instead of a list that names every row.
        if which:
            names = ", ".join(f"{row.task} {row.direction}" for row in which)
            yield f"{text}: {names if len(which) < len(measured) or len(which) < 2 else 'all of them'}."


def _speed_table(rows: Sequence[SuiteRow]) -> Table:
    modes = [mode for mode in MODES if any(mode in row.against for row in rows)]
    modelled = any(row.kind == "modelled" for row in rows)
    # One device for all rows stands in the kernels' sections; several need a column.
    several = len({row.environment.device for row in rows if row.environment}) != 1
    numbers = ("vs torch's best", *modes, *(("modelled",) if modelled else ()))
    columns = ("task", "pass", "best kernel", *numbers, *(("device",) if several else ()), "date")
    cells = tuple(_speed_row(row, modes, modelled, several) for row in rows)
    return Table(columns, cells, frozenset({*numbers, "date"}))


def _speed_row(row: SuiteRow, modes: Sequence[str], modelled: bool, several: bool) -> tuple[str, ...]:
    best = f"{format_interval(row.best, row.low, row.high)} {row.claim or ''}".strip()
    torch = tuple(format_speedup(row.against.get(mode)) for mode in modes)
    model = (format_us(row.us) if row.kind == "modelled" else "–",) if modelled else ()
    where = (row.environment.device if row.environment else "–",) if several else ()
    kernel = f"{row.kernel} {row.run}".strip() or row.score
    return row.task, row.direction, kernel, best, *torch, *model, *where, _date(row)


def _limits(rows: Sequence[SuiteRow]) -> Table:
    roof = ("of roofline", "at the largest case")
    numbers = ("device time", "call time", *roof, "checked", "held-out checked", "held-out", "held-out / timing")
    return Table(("task", "pass", *numbers), tuple(_limit_row(row) for row in rows), frozenset(numbers))


def _limit_row(row: SuiteRow) -> tuple[str, ...]:
    word = " modelled" if row.kind == "modelled" else ""
    gap = row.gap
    show = format_speedup if gap and gap.unit == "speedup" else format_percent
    heldout = show(gap.heldout) if gap else "–"
    ratio = f"{gap.ratio:.2f}" if gap and gap.ratio else "–"
    largest = f"{format_percent(row.largest)} {row.largest_case}".strip() if row.largest else "–"
    times = (f"{format_us(row.us)}{word}", format_us(row.call_us), format_percent(row.roofline), largest)
    return row.task, row.direction, *times, _checked(row, secret=False), _checked(row, secret=True), heldout, ratio


def _checked(row: SuiteRow, secret: bool) -> str:
    """Return how many cases were right and the worst error over its bound."""
    found = [one for one in row.checks if (one.group == "heldout") is secret]
    worst = max((one.worst for one in found if one.worst is not None), default=None)
    return f"{pluralize(sum(one.cases for one in found), 'case')}, {format_error(worst)}" if found else "–"


def _kernel(row: SuiteRow) -> Iterator[Block]:
    yield Paragraph(row.sentence)
    yield case_table(row.cases)
    notes: dict[str, list[str]] = {}
    # Equal notes of many cases are written once.
    for case in row.cases:
        for note in case.notes:
            notes.setdefault(note, []).append(case.name)
    yield from (Paragraph(f"{', '.join(names)}: {note}.", "soft") for note, names in notes.items())
    if row.gap:
        yield Paragraph(row.gap.sentence, "soft")
    yield Paragraph(_origin(row), "soft")


def _origin(row: SuiteRow) -> str:
    """Describe a kernel's id and evaluation."""
    where = row.environment
    parts = [f"Kernel {row.kernel}", macro_flags(row.macros), f"tier {row.tier}" if row.tier else ""]
    if where:
        versions = (("driver", where.driver), ("CUDA", where.toolchain), ("torch", where.torch))
        parts += [where.device, *(f"{name} {version}" for name, version in versions if version)]
    return f"{', '.join(part for part in (*parts, _date(row) if row.date else '') if part)}."


def _date(row: SuiteRow) -> str:
    return f"{row.date:%Y-%m-%d}" if row.date else "–"

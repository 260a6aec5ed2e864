"""The leaderboard as a document: the suite in two tables, then the cases of every kernel. Knows no markup."""

from collections.abc import Iterator, Sequence

from warpsmith.base import geomean, pluralize
from warpsmith.records import MODES, SpeedComparison
from warpsmith.report.blocks import Block, Code, Document, Paragraph, Section, Table
from warpsmith.report.cases import case_table
from warpsmith.report.page import SuitePage, SuiteRow
from warpsmith.report.words import error, foot, interval, macro_words, micro, percent, speedup

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
    """The leaderboard."""
    filled = [row for row in page.rows if row.kind != "none"]
    sections = [Section("Suite", tuple(_speeds(page, filled)), level=1)]
    if filled:
        sections.append(Section("Times, roofline, held-out shapes", (Paragraph(LIMITS), _limits(filled))))
        sections.append(Section("Times a case", (Paragraph(CASES),)))
    sections += [Section(f"{row.task} {row.direction}", tuple(_kernel(row)), level=3) for row in filled]
    return Document("warpsmith: suite", tuple(sections), foot(page.made, page.package))


def _speeds(page: SuitePage, filled: Sequence[SuiteRow]) -> Iterator[Block]:
    there = f"{len(filled)} of {pluralize(len(page.rows), 'direction')} of tasks have a right and timed kernel"
    yield Paragraph(f"{there} in {page.source}. {SPEEDS}")
    yield from (Paragraph(text, "strong") for text in _means(filled))
    yield _speed_table(page.rows)
    yield from (Paragraph(text) for text in _doubts(filled))
    yield from (Paragraph(text, "soft") for text in page.left_out)
    if page.command:
        yield Paragraph("Made by this command, from the records alone:")
        yield Code(page.command)


def _means(rows: Sequence[SuiteRow]) -> Iterator[str]:
    """One number a direction."""
    for direction in dict.fromkeys(row.direction for row in rows):
        some = [row for row in rows if row.direction == direction and row.best]
        if some:
            kernels, every = pluralize(len(some), "kernel"), all(_whole(row) for row in some)
            best = "torch's best mode" if every else "the best of the modes of torch that were measured"
            mean = geomean([row.best for row in some if row.best])
            yield f"{direction}: {mean:.3f}× {best}, the geometric mean of {kernels}."


def _whole(row: SuiteRow) -> bool:
    """Whether it was held against every mode of torch."""
    return not set(MODES) - set(row.against)


def _doubts(rows: Sequence[SuiteRow]) -> Iterator[str]:
    """Where torch still wins, where nothing is sure, and what was measured less well than a claim."""
    measured = [row for row in rows if row.kind == "measured"]
    slower = [row for row in measured if row.claim is SpeedComparison.SLOWER]
    unsure = [row for row in measured if row.claim is SpeedComparison.INCONCLUSIVE]
    partly = [row for row in measured if not _whole(row)]
    search = [row for row in measured if row.tier == "search"]
    older = [row for row in measured if row.older]
    for text, which in (
        ("Torch's best mode is faster", slower),
        ("Neither is surely faster", unsure),
        ("Not every mode of torch was measured, so the best one may be missing", partly),
        ("Measured as a search does, against baselines that may be of another hour", search),
        ("Evaluated before the task was changed, so that its inputs and bounds may be stricter now", older),
    ):
        if which:
            names = ", ".join(f"{row.task} {row.direction}" for row in which)
            yield f"{text}: {names if len(which) < len(measured) or len(which) < 2 else 'all of them'}."


def _speed_table(rows: Sequence[SuiteRow]) -> Table:
    modes = [mode for mode in MODES if any(mode in row.against for row in rows)]
    modelled = any(row.kind == "modelled" for row in rows)
    several = len({row.environment.device for row in rows if row.environment}) != 1
    numbers = ("vs torch's best", *modes, *(("modelled",) if modelled else ()))
    columns = ("task", "pass", "best kernel", *numbers, *(("device",) if several else ()), "date")
    cells = tuple(_speed_row(row, modes, modelled, several) for row in rows)
    return Table(columns, cells, frozenset({*numbers, "date"}))


def _speed_row(row: SuiteRow, modes: Sequence[str], modelled: bool, several: bool) -> tuple[str, ...]:
    best = f"{interval(row.best, row.low, row.high)} {row.claim or ''}".strip()
    torch = tuple(speedup(row.against.get(mode)) for mode in modes)
    model = (micro(row.us) if row.kind == "modelled" else "–",) if modelled else ()
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
    show = speedup if gap and gap.unit == "speedup" else percent
    heldout = show(gap.heldout) if gap else "–"
    ratio = f"{gap.ratio:.2f}" if gap and gap.ratio else "–"
    largest = f"{percent(row.largest)} {row.largest_case}".strip() if row.largest else "–"
    times = (f"{micro(row.us)}{word}", micro(row.call_us), percent(row.roofline), largest)
    return row.task, row.direction, *times, _checked(row, secret=False), _checked(row, secret=True), heldout, ratio


def _checked(row: SuiteRow, secret: bool) -> str:
    """How many cases of the search's own, or drawn at grading, were right, and how near its bound the worst came."""
    found = [one for one in row.checks if (one.group == "heldout") is secret]
    worst = max((one.worst for one in found if one.worst is not None), default=None)
    return f"{pluralize(sum(one.cases for one in found), 'case')}, {error(worst)}" if found else "–"


def _kernel(row: SuiteRow) -> Iterator[Block]:
    yield Paragraph(row.sentence)
    yield case_table(row.cases)
    notes: dict[str, list[str]] = {}
    for case in row.cases:
        for note in case.notes:
            notes.setdefault(note, []).append(case.name)
    yield from (Paragraph(f"{', '.join(names)}: {note}.", "soft") for note, names in notes.items())
    if row.gap:
        yield Paragraph(row.gap.sentence, "soft")
    yield Paragraph(_origin(row), "soft")


def _origin(row: SuiteRow) -> str:
    """Which kernel, and where and when it was evaluated."""
    where = row.environment
    parts = [f"Kernel {row.kernel}", macro_words(row.macros), f"tier {row.tier}" if row.tier else ""]
    if where:
        versions = (("driver", where.driver), ("CUDA", where.toolchain), ("torch", where.torch))
        parts += [where.device, *(f"{name} {version}" for name, version in versions if version)]
    return f"{', '.join(part for part in (*parts, _date(row) if row.date else '') if part)}."


def _date(row: SuiteRow) -> str:
    return f"{row.date:%Y-%m-%d}" if row.date else "–"

"""The leaderboard: the best kernel of every task and direction."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

import warpsmith
from warpsmith.archive import Archive, ArchivedEvaluation
from warpsmith.base import RECORDS_BYTES, UsageError, read_file
from warpsmith.records import MODES, CaseTiming, Direction, MeasuredScore, Record, SpeedComparison
from warpsmith.report.page import SuitePage, SuiteRow
from warpsmith.report.winner import case_rows, check_rows, generalization_gap, write_headline
from warpsmith.report.words import SHORT, describe_score, positive_geomean

Pair = tuple[str, Direction]
NO_TASKS: Mapping[str, str] = MappingProxyType({})


def suite_page(
    archive: Archive,
    source: str,
    tasks: Mapping[str, str] = NO_TASKS,
    left_out: Sequence[str] = (),
    *,
    loaded: bool = False,
) -> SuitePage:
    """Build the leaderboard, with an empty row for each of `tasks` without a record.

    `tasks` maps names to present versions, so that records of earlier versions are marked. With `loaded`, the archive
    was just filled from files, and its dates are not those of the records.
    """
    # Later entries overwrite earlier ones, so each pair keeps its last outcome.
    last = {(entry.task, entry.direction): _describe_end(entry) for entry in archive.records()}
    named = {(task, direction) for task in tasks for direction in Direction}
    order = {direction: place for place, direction in enumerate(Direction)}
    pairs = sorted(named | set(last), key=lambda pair: (pair[0], order[pair[1]]))
    rows = tuple(_row(archive, pair, last.get(pair, ""), tasks.get(pair[0], ""), loaded) for pair in pairs)
    package = warpsmith.__version__
    return SuitePage(made=datetime.now(UTC), package=package, source=source, rows=rows, left_out=tuple(left_out))


def load_folder(archive: Archive, folder: Path) -> list[str]:
    """Add the records of a folder; return a sentence for each file with bad lines."""
    if not folder.is_dir():
        raise UsageError(f"Folder {folder} does not exist. Name one that holds records as .jsonl or .json files.")
    paths = sorted((*folder.rglob("*.jsonl"), *folder.rglob("*.json")))
    if not paths:
        raise UsageError(f"Folder {folder} has no .jsonl and no .json file. warpsmith eval-batch writes them.")
    # One transaction for all files: a commit for each record would take most of the time.
    with archive.transaction():
        return [said for path in paths if (said := _load(archive, path))]


def _load(archive: Archive, path: Path) -> str:
    """Add one file. Return a sentence if some of its lines are no records."""
    raw = read_file(path, RECORDS_BYTES)
    # A JSON file is one record on many lines; a JSON Lines file has one record a line.
    lines = [line.strip() for line in raw.removesuffix(b"\n").split(b"\n")] if path.suffix == ".jsonl" else [raw]
    bad = 0
    for line in filter(None, lines):
        found = Record.read(line)
        if isinstance(found, Record):
            archive.add(None, found)
        else:
            bad += 1
    return f"{path.name}: {bad} of {len(lines)} lines hold no record and were passed over." if bad else ""


def _describe_end(entry: ArchivedEvaluation) -> str:
    """Return how a record without a score ended."""
    reason = f" ({entry.reason})" if entry.reason else ""
    return f"{entry.verdict} at {entry.stage}{reason}" if entry.stage else entry.verdict.value


def _row(archive: Archive, pair: Pair, last: str, version: str, loaded: bool) -> SuiteRow:
    task, direction = pair
    entries = archive.elites(task=task, direction=direction, limit=1)
    if not entries:
        score = f"none yet: {last}" if last else "none yet"
        return SuiteRow(task=task, direction=direction.value, score=score)
    created = None if loaded else entries[0].created
    return _filled(entries[0], version, created)


def _filled(entry: ArchivedEvaluation, version: str, created: datetime | None) -> SuiteRow:
    record, score = entry.record, entry.score
    cases = record.timing.seen if record.timing else ()
    measured = score if isinstance(score, MeasuredScore) else None
    # Large cases are bound by the GPU and not by the launch, so their share of the roofline says most.
    largest = max(cases, key=lambda one: one.roofline_us, default=None)
    return SuiteRow(
        task=entry.task,
        direction=entry.direction.value,
        kind="measured" if measured else "modelled",
        kernel=entry.candidate[:SHORT],
        macros=record.candidate.macros,
        run=entry.run,
        score=describe_score(score),
        sentence=write_headline(entry, None).sentence,
        against={mode: mean for mode in MODES if (mean := _against(cases, mode)) is not None},
        best=measured.value if measured else None,
        low=measured.low if measured else None,
        high=measured.high if measured else None,
        claim=SpeedComparison.of(measured.low, measured.high) if measured else None,
        tier=record.timing.tier if record.timing else "",
        # A record of an older version of the task may have had weaker bounds.
        older=version not in ("", record.task_version),
        us=positive_geomean(one.time.us for one in cases),
        call_us=positive_geomean(one.call.us for one in cases if one.call),
        roofline=positive_geomean(one.roofline for one in cases if one.roofline),
        largest=largest.roofline if largest else None,
        largest_case=largest.case.name if largest else "",
        checks=check_rows(record),
        gap=generalization_gap(record),
        cases=case_rows(record),
        environment=record.environment,
        date=record.environment.when or created,
    )


def _against(cases: Sequence[CaseTiming], mode: str) -> float | None:
    """Return the mean speedup against one mode of torch; None unless every case has its time."""
    # A mean over some of the cases would compare different kernels with different modes.
    ratios = [one.baselines[mode].us / one.time.us for one in cases if mode in one.baselines and one.time.us]
    return positive_geomean(ratios) if ratios and len(ratios) == len(cases) else None

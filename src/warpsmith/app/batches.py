"""Many kernels as a batch, resumable after a kill."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from warpsmith.app.evaluators import choose_evaluator
from warpsmith.app.jobs import Watch, ignore
from warpsmith.app.kernels import kernel_candidate, kernels_below
from warpsmith.app.results import archive_records
from warpsmith.base import UsageError
from warpsmith.evaluation import Ahead, BatchLine, EvaluationConfig, Results, read_requests, run_batch
from warpsmith.records import Model, Record, Verdict
from warpsmith.tasks.suite import folders


@dataclass(frozen=True)
class BatchRequest:
    """The kernels of a file or a folder, and where their results go."""

    batch: Path
    config: EvaluationConfig = field(default_factory=EvaluationConfig)
    out: Path | None = None
    jobs: int = 1
    allow_outside: bool = False  # read kernels outside of the batch file's folder
    is_archived: bool = False
    pool: bool = True  # evaluate in the resident pool if one runs


@dataclass(frozen=True)
class BatchProgress:
    """Event: one more line is done, or `line` is empty and `done` lines were in the file before."""

    done: int
    total: int
    unusable: int
    line: str = ""


class BatchSummary(Model):
    """The file of results: its lines, how many it had before, and how many hold no record."""

    out: str
    lines: int
    there: int
    unusable: int


def evaluate_many(request: BatchRequest, watch: Watch = ignore) -> BatchSummary:
    """Evaluate many kernels, and return the counts. Events are BatchProgress.

    With `out`, lines are appended to that file, and lines that it has already are not evaluated again.
    """
    requests = read_batch(request.batch, request.allow_outside)
    if request.out is None:
        return _evaluate(request, requests, Unsaved(), watch)
    results = Results(request.out)
    # Results of an earlier process may be missing in the archive; adding a record again changes nothing.
    _archive(results.lines, request.is_archived)
    return _evaluate(request, requests, results, watch)


class Unsaved:
    """Results that are handed to the watcher only."""

    path = Path()
    lines: tuple[str, ...] = ()

    def left(self, requests: Sequence[BatchLine], _config: EvaluationConfig) -> Sequence[BatchLine]:
        """Return all requests."""
        return requests

    def add(self, line: str) -> None:
        """Save nothing."""


def _evaluate(
    request: BatchRequest, requests: Sequence[BatchLine], results: Results | Unsaved, watch: Watch
) -> BatchSummary:
    left = results.left(requests, request.config)
    ahead = Ahead(results) if isinstance(results, Results) else None
    there, total, unusable = len(requests) - len(left), len(requests), sum(map(is_unusable, results.lines))
    watch(BatchProgress(there, total, unusable))
    lines = run_batch(left, request.config, request.jobs, ahead=ahead, grade_for=choose_evaluator(request.pool))
    for number, line in enumerate(lines, there + 1):
        # The line is saved before it is shown, so a kill loses no result that was shown.
        results.add(line)
        _archive([line], request.is_archived)
        unusable += is_unusable(line)
        watch(BatchProgress(number, total, unusable, line))
    if ahead:
        ahead.over()
    out = str(request.out.absolute()) if request.out else ""
    return BatchSummary(out=out, lines=total, there=there, unusable=unusable)


def read_batch(batch: Path, allow_outside: bool) -> list[BatchLine]:
    """Return the lines of a batch file, or a folder's kernels."""
    if not batch.is_dir():
        return list(read_requests(batch, allow_outside))
    return [_read_kernel(number, path) for number, path in enumerate(kernels_below(batch), 1)]


def _read_kernel(number: int, path: Path) -> BatchLine:
    """Return a folder's kernel, or its error."""
    if path.absolute().parent.name not in folders():
        return BatchLine(number, str(path), None, f"{path} lies in no folder named after a task of the suite")
    try:
        target, candidate = kernel_candidate(path, "", {})
    except UsageError as error:
        return BatchLine(number, str(path), None, str(error))
    return BatchLine(number, str(path), candidate.model_copy(update={"task": target}))


def is_unusable(line: str) -> bool:
    """Return whether a result holds an error instead of a record."""
    return not isinstance(Record.read(line), Record)


def describe_line(line: str) -> str:
    """Return a result in a few words."""
    record = Record.read(line)
    if isinstance(record, str):
        return str(json.loads(line)["error"])
    reasons = [f" ({result.reason})" for result in record.results if result.reason]
    why = reasons[-1] if reasons and record.concluded is not Verdict.PASS else ""
    return f"{record.candidate.task} {record.candidate.direction} {record.concluded}{why}"


def _archive(lines: Iterable[str], is_archived: bool) -> None:
    """Archive the lines that are records."""
    if is_archived and (records := list(_records(lines))):
        archive_records(records)


def _records(lines: Iterable[str]) -> Iterator[Record]:
    return (one for line in lines if isinstance(one := Record.read(line), Record))

"""Published kernels evaluated again, and the comparison with their records."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from warpsmith import evaluation
from warpsmith.app.evaluators import choose_evaluator
from warpsmith.app.jobs import Watch, ignore
from warpsmith.app.kernels import kernel_candidate
from warpsmith.app.results import RECORDS, archive_records, read_lines, read_records, records_below, results_for
from warpsmith.base import HarnessError, UsageError
from warpsmith.evaluation import EvaluationConfig, is_measured, processes
from warpsmith.evaluation.processes import Grade
from warpsmith.languages import suffixes
from warpsmith.records import CLAIM, Candidate, EvaluationOptions, Record, Verdict
from warpsmith.report import Agreement, compare_records, without_verdict


@dataclass(frozen=True)
class PublishedKernel:
    """One published kernel: where it stands, and its record if there is one."""

    where: str
    target: str
    candidate: Candidate
    record: Record | None = None
    note: str = ""


@dataclass(frozen=True)
class UnreadableLine:
    """A line without a record, and the reason."""

    where: str
    why: str


Published = PublishedKernel | UnreadableLine
ReadFolder = Callable[[Path], tuple[Record, ...]]


@dataclass(frozen=True)
class RegradeRequest:
    """The published files, the folder of their records, and the evaluation that repeats them."""

    files: Sequence[Path]
    against: Path | None = None
    task: str = ""  # where the files do not name it
    macros: Mapping[str, str] = field(default_factory=dict)
    device: str = evaluation.AUTO
    same_seed: bool = False
    quick: bool = False  # on a GPU, at the tier of a search and against torch eager alone
    within: float = 0.1  # the share by which times of the same hardware may differ
    trust: bool = False
    jobs: int = 1
    is_archived: bool = True
    pool: bool = True  # evaluate in the resident pool if one runs


def regrade(request: RegradeRequest, watch: Watch = ignore) -> tuple[list[Agreement], str]:
    """Return the comparisons, and the reason if nothing was archived. Events: Agreement."""
    read_folder = cache(records_below)
    # A single file that holds nothing is an error of the caller; one of several is reported beside the others.
    read = _read_path if len(request.files) == 1 else _read_path_or_error
    published = [one for path in request.files for one in read(path, request, read_folder)]
    found = []
    for one in _evaluate(published, request):
        found.append(one)
        watch(one)
    records = [one.record for one in found if one.record is not None]
    return found, archive_records(records) if request.is_archived else ""


def _read_path(path: Path, request: RegradeRequest, read_folder: ReadFolder) -> Iterator[Published]:
    """Yield the kernels of a file, or of a folder; a folder with kernels and records counts by its kernels."""
    if path.is_dir():
        kernels = sorted(one for suffix in suffixes() for one in path.rglob(f"*{suffix}"))
        below = kernels or [one for suffix in RECORDS for one in sorted(path.rglob(f"*{suffix}"))]
        if not below:
            raise UsageError(f"No kernel (.cu) and no record (.json, .jsonl) below {path}.")
        for one in below:
            yield from _read_path_or_error(one, request, read_folder)
    elif path.suffix in suffixes():
        yield _read_kernel(path, request, read_folder)
    else:
        lines = read_lines(path)
        for number, found in lines:
            where = f"{path}:{number}" if len(lines) > 1 else str(path)
            if isinstance(found, Record):
                yield PublishedKernel(where, request.task or found.candidate.task, found.candidate, found)
            else:
                yield UnreadableLine(where, found)


def _read_path_or_error(path: Path, request: RegradeRequest, read_folder: ReadFolder) -> Iterator[Published]:
    """Yield the kernels of one path of several, or its error."""
    try:
        yield from _read_path(path, request, read_folder)
    except UsageError as error:
        if not path.exists():
            raise
        yield UnreadableLine(str(path), str(error))


def _read_kernel(path: Path, request: RegradeRequest, read_folder: ReadFolder) -> PublishedKernel:
    """Return a kernel with its record, beside the file or in the folder."""
    beside = path.with_suffix(".json")
    # Given macros make another kernel, so the record beside the file does not describe it.
    if beside.is_file() and not request.macros:
        (record,) = read_records(beside)[:1]
        target, candidate = kernel_candidate(path, request.task, record.candidate.macros)
        # Ids hash the text: a record beside an edited file must not vouch for it.
        if candidate.id != record.candidate.id:
            raise UsageError(f"{beside} is the record of another kernel than {path}: the texts differ.")
        return PublishedKernel(str(path), target, candidate, record)
    target, candidate = kernel_candidate(path, request.task, request.macros)
    kernel, results = PublishedKernel(str(path), target, candidate), results_for(path, request.against)
    return kernel if results is None else _with_record(kernel, results, request, read_folder)


def _with_record(
    one: PublishedKernel, results: Path, request: RegradeRequest, read_folder: ReadFolder
) -> PublishedKernel:
    """Return the kernel with its record of a folder, a claim first; macros as recorded unless given."""
    pairs = [found for found in read_folder(results) if _is_same_work(found.candidate, one.candidate)]
    same = [found for found in pairs if found.candidate.source == one.candidate.source]
    if request.macros:
        same = [found for found in same if found.candidate.id == one.candidate.id]
    if same:
        # A claim measured its baselines in the same session, so it is the better reference.
        record = max(same, key=lambda found: found.options.tier == CLAIM)
        return replace(one, candidate=record.candidate, record=record)
    return replace(one, note=f"{results} has a record of another text for this task and direction") if pairs else one


def _is_same_work(one: Candidate, other: Candidate) -> bool:
    return (one.task, one.direction) == (other.task, other.direction)


def _evaluate(published: Sequence[Published], request: RegradeRequest) -> Iterator[Agreement]:
    """Yield the comparisons in order, each as soon as possible."""
    config = regrade_config(None, request)
    jobs, grade_for = min(request.jobs, len(published)), choose_evaluator(request.pool)
    with processes.pool_of_judges(config, jobs, grade_for) as (threads, grade):
        for one in [threads.submit(_compare, one, request, grade) for one in published]:
            yield one.result()


def _compare(one: Published, request: RegradeRequest, grade: Grade) -> Agreement:
    """Return the comparison of one kernel; an error in it leaves the other kernels alone."""
    if isinstance(one, UnreadableLine):
        return without_verdict(one.where, None, one.why)
    # The published seed repeats the published inputs; otherwise new secret inputs are drawn.
    seeds = one.record.options.seeds if one.record and request.same_seed else ()
    candidate = one.candidate.model_copy(update={"task": one.target})
    try:
        config = regrade_config(one.record, request)
        if one.record and seeds:
            # Old records draw their inputs by an older scheme.
            config = config.replace(scheme=one.record.options.scheme)
        after = grade(candidate, config, seeds[0] if seeds else None)
    except UsageError as error:
        return without_verdict(one.where, one.record, f"{error} --task names it where it has another name here.")
    except HarnessError as error:
        return without_verdict(one.where, one.record, str(error)).model_copy(update={"after": Verdict.FAULT})
    found = compare_records(one.where, one.record, after, request.within)
    return found.model_copy(update={"notes": (*found.notes, one.note)}) if one.note else found


def regrade_config(record: Record | None, request: RegradeRequest) -> EvaluationConfig:
    """Return the published options if this machine has that device. Defences that were left out are back."""
    device = evaluation.settle_device(request.device)
    # Without a record of this device there is nothing to repeat, so the usual options hold.
    modes = ("eager",) if request.quick and is_measured(device) else ()
    if record is None or record.options.device != device:
        return EvaluationConfig(device=device, trust=request.trust, baselines=modes)
    options = record.options
    return EvaluationConfig(
        device=device,
        cases=options.cases,
        gpu=options.gpu,
        trust=request.trust,
        cache="warm" if options.cache == "warm" else "cold",
        baselines=modes or options.baselines,
        effort="thorough" if _is_thorough(options, request.quick) else "usual",
    )


def _is_thorough(options: EvaluationOptions, quick: bool) -> bool:
    """Return whether a thorough evaluation repeats a record.

    On the virtual GPU a sketch and a thorough evaluation time the same cases, which the usual one does not time.
    """
    return options.tier == CLAIM and not quick if is_measured(options.device) else options.effort != "usual"

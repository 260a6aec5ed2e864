"""Reports of runs, and the leaderboard of the suite."""

import json
from collections.abc import Sequence
from pathlib import Path

from warpsmith import evaluation
from warpsmith.app.profiles import profile_record
from warpsmith.archive import Archive
from warpsmith.base import UsageError, shell_line
from warpsmith.evaluation import EvaluationConfig
from warpsmith.report import PROFILE, ReportPage, SuitePage, build_report, load_folder, suite_page
from warpsmith.tasks.suite import versions


def report(runs: Sequence[str] = (), is_profiled: bool = False, trust: bool = False) -> ReportPage:
    """Return the report of runs, or of the latest run."""
    with Archive.open() as archive:
        names = runs or [_latest(archive)]
        if is_profiled:
            _profile_best(archive, names, trust)
        return build_report(archive, names)


def leaderboard(folders: Sequence[str] = ()) -> SuitePage:
    """Return the leaderboard of the suite, over the archive or over folders of records."""
    tasks = versions()
    if not folders:
        with Archive.open() as archive:
            return suite_page(archive, "the archive", tasks)
    # Folders of records are read into an archive in memory, so that the same queries serve both.
    with Archive.open("sqlite://") as archive:
        left_out = [line for folder in folders for line in load_folder(archive, Path(folder))]
        source = ", ".join(Path(folder).name for folder in folders)
        page = suite_page(archive, source, tasks, left_out, loaded=True)
    return page.model_copy(update={"command": shell_line("warpsmith", "report", "--suite", *folders)})


def _latest(archive: Archive) -> str:
    runs = archive.runs()
    if not runs:
        raise UsageError("The archive holds no run. warpsmith optimize TASK starts one.")
    return runs[0].name


def _profile_best(archive: Archive, names: Sequence[str], trust: bool) -> None:
    """Profile the best kernel of each run on the device of the run, and save the profile with the run."""
    for name in names:
        run, best = archive.run(name), archive.best(name)
        if best is None:
            continue
        device, gpu = evaluation.settle_device(run.device), best.record.options.gpu
        config = EvaluationConfig(device=device, gpu=gpu, trust=trust)
        facts = profile_record(run.target, best.record, config)
        archive.note(name, PROFILE, json.loads(facts.text()), name=best.candidate)

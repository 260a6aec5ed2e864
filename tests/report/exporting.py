"""Packages made of the suite's seeds, with records as an evaluation that passed would leave them."""

from collections.abc import Mapping
from pathlib import Path

import warpsmith
from warpsmith.languages import language_of
from warpsmith.records import (
    Candidate,
    Direction,
    Environment,
    EvaluationOptions,
    Group,
    Record,
    StageResult,
    Task,
    Trial,
    Verdict,
)
from warpsmith.report.export.package import Package, package_files
from warpsmith.tasks.host import open_task

SUITE = Path(warpsmith.__file__).parent / "tasks" / "suite"
BOTH = ("seed_forward.cu", "seed_backward.cu")


def passed(task: Task, file: Path, macros: Mapping[str, str] | None = None) -> Record:
    """The record of a seed that passed."""
    source = file.read_text()
    direction = Direction.BACKWARD if "backward" in file.stem else Direction.FORWARD
    candidate = Candidate(
        task=task.name, direction=direction, source=source, language=language_of(source), macros=dict(macros or {})
    )
    return Record(
        candidate=candidate,
        task_version=task.version,
        environment=Environment(device="the virtual GPU", hardware="vgpu:H200"),
        options=EvaluationOptions(device="vgpu", seeds=(1,)),
        results=(StageResult(stage="check", verdict=Verdict.PASS),),
    )


def package(name: str, files: tuple[str, ...] = BOTH, macros: Mapping[str, str] | None = None) -> Package:
    """A package of a suite task's seeds."""
    with open_task(name) as opened:
        task = opened.describe()
        trials = [Trial(case=case, seed=1) for case in task.group(Group.SMOKE)]
        drawn = {trial.case.name: opened.problem(Direction.FORWARD, trial).arguments for trial in trials}
    records = [passed(task, SUITE / name / file, macros) for file in files]
    by_direction = {record.candidate.direction: record for record in records}
    return Package(name=f"{name}_kernel", task=task, records=by_direction, arguments=drawn)


def written(one: Package, folder: Path) -> Path:
    """The files of a package in a folder."""
    for name, text in package_files(one).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder

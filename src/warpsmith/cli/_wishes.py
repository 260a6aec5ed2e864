"""What a user asked of a search: given now, saved with the run, or the default. Opens nothing but the run's row."""

import shlex
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from warpsmith.base import UsageError
from warpsmith.records import Direction

if TYPE_CHECKING:
    from warpsmith.archive import Archive


@dataclass(frozen=True)
class Wishes:
    """What a user asked. None is what the run had before, or the default."""

    target: str
    direction: Direction | None = None
    device: str | None = None
    gpu: str | None = None
    models: str | None = None
    generations: int | None = None
    proposals: int | None = None
    evaluate: int | None = None
    drafts: int | None = None
    attempts: int | None = None
    patience: int | None = None
    budget_usd: float | None = None
    budget_minutes: float | None = None
    budget_evaluations: int | None = None
    goal: float | None = None
    roofline: float | None = None
    reviewers: str | None = None
    seed: int | None = None
    trust: bool = False
    jobs: int = 0
    run: str = ""
    resume: bool = False
    start: Path | None = None
    record: Path | None = None
    replay: Path | None = None
    who: str | None = None  # answers a run that is asked and told; one that asks models itself has none


DEFAULTS: dict[str, object] = {
    "direction": Direction.FORWARD,
    "device": "auto",
    "gpu": "H200",
    "models": "",
    "generations": 10,
    "proposals": 8,
    "evaluate": 4,
    "drafts": 2,
    "attempts": 10,
    "patience": 4,
    "reviewers": "",
}
KEPT = tuple(
    one.name for one in fields(Wishes) if one.name not in ("target", "run", "resume", "start", "jobs", "trust")
)


def placed(target: str) -> str:
    """The task in words that mean it from every folder."""
    from warpsmith.tasks.target import find

    return find(target).label


def with_defaults(wishes: Wishes) -> Wishes:
    """Every wish that was not given, as it is by default."""
    missing = {name: value for name, value in DEFAULTS.items() if getattr(wishes, name) is None}
    return replace(wishes, **missing)  # type: ignore[arg-type]


def resumed(archive: "Archive", wishes: Wishes) -> Wishes:
    """What the run was asked first, with what is asked differently now."""
    if not wishes.run:
        raise UsageError("Name the run to resume: --run NAME --resume. warpsmith runs lists them.")
    if wishes.start is not None:
        raise UsageError(f"Run {wishes.run} has begun with a kernel of its own; --from starts a new run only.")
    run = archive.run(wishes.run)
    if wishes.target and placed(wishes.target) != run.target:
        raise UsageError(f"Run {run.name} is of task {run.target}, not {wishes.target}.")
    saved = {name: _read(name, text) for name, text in run.settings.items() if name in KEPT}
    given = {name: getattr(wishes, name) for name in KEPT if getattr(wishes, name) is not None}
    merged = replace(wishes, **{**saved, **given})
    return with_defaults(replace(merged, target=run.target, direction=run.direction, seed=run.seed, device=run.device))


def _read(name: str, text: str) -> object:
    kinds = {"direction": Direction, "record": Path, "replay": Path}
    whole = ("generations", "proposals", "evaluate", "drafts", "attempts", "patience", "budget_evaluations", "seed")
    if name in whole:
        return int(text)
    if name in ("budget_usd", "budget_minutes", "goal", "roofline"):
        return float(text)
    return kinds.get(name, str)(text)


def command_of(wishes: Wishes) -> str:
    """The command line that asks this."""
    asked = ["ask", wishes.run, "--out", "DIR", "--task"]
    words = ["warpsmith", *(asked if wishes.who else ["optimize"]), wishes.target]
    names = {"start": "--from"} | ({"proposals": "-n"} if wishes.who else {})
    for one in (*KEPT, "start"):
        value = getattr(wishes, one)
        if value not in (None, "", DEFAULTS.get(one)):
            words += [names.get(one, f"--{one.replace('_', '-')}"), str(value)]
    return shlex.join(words)

"""What a user asked of a search: given now, saved with the run, or the default. Opens nothing but the run's row."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt

from warpsmith.base import UsageError, shell_line
from warpsmith.records import Direction, Model, Name, Seed

if TYPE_CHECKING:
    from warpsmith.archive import Archive


def _usual(name: str) -> Any:
    """A field with the default of the search, which is asked when it is needed: it takes half a second to load."""

    def default() -> object:
        from warpsmith.search import Limits, Shape

        return {**asdict(Limits()), **asdict(Shape())}[name]

    return Field(default_factory=default)


class Wishes(Model):
    """What a user asked; `model_fields_set` says which of it, and the rest is as usual."""

    target: Name
    direction: Direction = Direction.FORWARD
    device: str = "auto"
    gpu: str = "H200"
    models: str = ""
    generations: NonNegativeInt = _usual("generations")
    proposals: PositiveInt = _usual("proposals")
    evaluate: PositiveInt = _usual("evaluate")
    drafts: PositiveInt = _usual("drafts")
    attempts: PositiveInt = _usual("attempts")
    patience: PositiveInt | None = _usual("patience")
    budget_usd: NonNegativeFloat | None = None
    budget_minutes: NonNegativeFloat | None = None
    budget_evaluations: PositiveInt | None = None
    goal: NonNegativeFloat | None = None
    roofline: Annotated[float, Field(ge=0, le=1)] | None = None
    reviewers: str = ""
    seed: Seed | None = None
    trust: bool = False
    jobs: NonNegativeInt = 0
    run: str = ""
    resume: bool = False
    start: Path | None = None
    record: Path | None = None
    replay: Path | None = None
    who: str | None = None  # answers a run that is asked and told; one that asks models itself has none
    elsewhere: bool | None = None  # whether kernels of such a run are evaluated on another machine

    @classmethod
    def asked(cls, **options: object) -> "Wishes":
        """The wishes of a command's options: None is one that was not given."""
        return cls.from_fields(**{name: value for name, value in options.items() if value is not None})

    def settings(self) -> dict[str, str]:
        """What is kept with a run, as text; `model_validate` reads it again."""
        return {name: str(value) for name in KEPT if (value := getattr(self, name)) not in (None, "")}


KEPT = tuple(name for name in Wishes.model_fields if name not in ("target", "run", "resume", "start", "jobs", "trust"))


def placed(target: str) -> str:
    """The task in words that mean it from every folder."""
    from warpsmith.tasks.formats import find

    return find(target).label


def resumed(archive: "Archive", wishes: Wishes) -> Wishes:
    """What the run was asked first, with what is asked differently now."""
    if not wishes.run:
        raise UsageError("Name the run to resume: --run NAME --resume. warpsmith runs lists them.")
    if wishes.start is not None:
        raise UsageError(f"Run {wishes.run} has begun with a kernel of its own; --from starts a new run only.")
    run = archive.run(wishes.run)
    if wishes.target and placed(wishes.target) != run.target:
        raise UsageError(f"Run {run.name} is of task {run.target}, not {wishes.target}.")
    saved = {name: text for name, text in run.settings.items() if name in KEPT}
    asked = {name: getattr(wishes, name) for name in wishes.model_fields_set}
    fixed = {"target": run.target, "direction": run.direction, "seed": run.seed, "device": run.device}
    return Wishes.model_validate({**saved, **asked, **fixed})


def command_of(wishes: Wishes) -> str:
    """The command line that asks this."""
    asked = ["ask", wishes.run, "--out", "DIR", "--task"]
    words = ["warpsmith", *(asked if wishes.who else ["optimize"]), wishes.target]
    names = {"start": "--from"} | ({"proposals": "-n"} if wishes.who else {})
    usual = Wishes(target="")
    for one in (*KEPT, "start"):
        value, option = getattr(wishes, one), names.get(one, f"--{one.replace('_', '-')}")
        if value is True:
            words.append(option)
        elif value is not False and value not in (None, "", getattr(usual, one)):
            words += [option, str(value)]
    return shell_line(*words)

"""The options of a search."""

from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt

from warpsmith.base import shell_line
from warpsmith.records import Direction, Model, Name, Seed

Share = Annotated[float, Field(ge=0, le=1)]
# Options that hold for one call only. Every other option is saved with the run, under its name.
NOT_SAVED = ("target", "run", "resume", "start", "jobs", "pool", "trust", "tuner_share")


class SearchConfig(Model):
    """The options of a search. None is no bound; `model_fields_set` tells the given options from the defaults."""

    target: Name = ""  # the task as the user named it; empty where a run is resumed
    direction: Direction = Direction.FORWARD
    device: str = "auto"
    gpu: str = "H200"  # that the virtual GPU models
    models: str = ""
    generations: NonNegativeInt = 10
    proposals: PositiveInt = 8  # of a generation
    evaluate: PositiveInt = 4  # of the proposals of models, how many at most are evaluated
    drafts: PositiveInt = 2  # first kernels that are asked for at once
    attempts: PositiveInt = 10  # rounds of translation
    patience: PositiveInt | None = 4  # generations without a gain
    budget_usd: NonNegativeFloat | None = None  # for models; 0 asks no model
    budget_minutes: NonNegativeFloat | None = None
    budget_evaluations: PositiveInt | None = None
    goal: NonNegativeFloat | None = None  # gain over the first kernel
    roofline: Share | None = None  # share of the roofline
    reviewers: str = ""
    seed: Seed | None = None
    trust: bool = False
    jobs: NonNegativeInt = 0  # 0: one per CPU core
    pool: bool = True  # evaluate in the resident pool if one runs
    run: str = ""
    resume: bool = False
    start: Path | None = None
    record: Path | None = None
    replay: Path | None = None
    who: str | None = None  # the name of who answers prompts; None: the search asks models itself
    elsewhere: bool | None = None  # whether another machine evaluates the kernels of such a run
    tuner_share: Share = 0.25  # of the slots, for the tuner while models propose too

    @classmethod
    def from_options(cls, **options: object) -> Self:
        """Return the configuration of the given options."""
        return cls.from_fields(**{name: value for name, value in options.items() if value is not None})

    def replace(self, **changes: Any) -> Self:
        """Return the configuration with some options changed."""
        return self.model_copy(update=changes)

    def settings(self) -> dict[str, str]:
        """Return the saved options of a run as text."""
        return {name: str(value) for name in SAVED if (value := getattr(self, name)) not in (None, "")}

    def command(self) -> str:
        """Return the command line that asks for this search."""
        ask = ["ask", self.run, "--out", "DIR", "--task"]
        words = ["warpsmith", *(ask if self.who else ["optimize"]), self.target]
        names = {"start": "--from"} | ({"proposals": "-n"} if self.who else {})
        default = SearchConfig()
        for name in (*SAVED, "start"):
            value, option = getattr(self, name), names.get(name, f"--{name.replace('_', '-')}")
            if value is True:
                words.append(option)
            elif value is not False and value not in (None, "", getattr(default, name)):
                words += [option, str(value)]
        return shell_line(*words)


SAVED = tuple(name for name in SearchConfig.model_fields if name not in NOT_SAVED)

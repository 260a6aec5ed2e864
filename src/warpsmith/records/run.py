"""Runs of a search: settings, state, costs of models and lessons."""

import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum

from pydantic import Field

from warpsmith.records.model import Model
from warpsmith.records.options import USUAL_GPU
from warpsmith.records.record import Record
from warpsmith.records.task import Direction

ANSWERS, REQUESTS, ELSEWHERE, ASK = "answers", "tell --requests", "evaluations elsewhere", "the next ask"  # waited for
GENERATION, PROPOSAL, LESSON = "generation", "proposal", "lesson"  # notes that a search keeps and a report reads
HELPED, HURT = 1.02, 0.98  # gains over the parent
NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"  # a run's name is part of file names


class RunState(StrEnum):
    """State of a run. A killed run still says `running`; `--resume` continues it."""

    RUNNING = "running"
    WAITING = "waiting"  # for somebody who goes on with `ask` and `tell`; `why` says for what
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"


class Run(Model):
    """One search for a kernel, with all settings that resuming it needs."""

    name: str = Field(pattern=NAME)
    target: str  # the task as it was typed
    task: str
    direction: Direction
    device: str
    settings: Mapping[str, str] = Field(default_factory=dict)
    seed: int = 0
    started: datetime = Field(default_factory=lambda: datetime.now(UTC))
    finished: datetime | None = None
    state: RunState = RunState.RUNNING
    why: str = ""  # why it stopped, or what it waits for
    command: str = ""
    package: str = ""

    @property
    def waits(self) -> bool:
        """Whether the run waits for `ask` or `tell`."""
        # Runs of `ask` and `tell` have the setting "who"; nobody runs between two commands, so `running` means waiting.
        return self.state is RunState.WAITING or (self.state is RunState.RUNNING and "who" in self.settings)

    @property
    def stands(self) -> str:
        """The state and its reason, as a phrase."""
        if self.waits:
            return f"waiting for {self.why or ANSWERS}"
        if self.state is RunState.RUNNING:
            return "not finished"
        return f"{self.state}: {self.why}" if self.why else str(self.state)

    @property
    def go_on(self) -> str:
        """The command that continues the run."""
        if not self.waits:
            words = ["optimize", self.target, "--run", self.name, "--resume"]
        elif self.why == ELSEWHERE:
            words = ["tell", self.name, "--results", "R.jsonl"]
        else:
            words = ["ask", self.name, "--out", "DIR"]
        # Quoted, so that the command can be pasted whatever the names hold.
        return shlex.join(["warpsmith", *words])

    def eval_command(self, record: Record, file: str) -> str:
        """Return the command that evaluates a kernel of the run from a file."""
        words = ["warpsmith", "eval", self.target, file, "--direction", self.direction.value, "--device", self.device]
        # The usual GPU is the default of the command, so the line stays short.
        words += ["--gpu", record.options.gpu] if record.options.gpu != USUAL_GPU else []
        return shlex.join([*words, *(f"-D{name}={value}" for name, value in sorted(record.candidate.macros.items()))])


class ModelCall(Model):
    """Cost of one model call, or the sum of `calls` of them."""

    model: str
    operator: str = ""
    input_tokens: int = Field(default=0, ge=0)
    output_tokens: int = Field(default=0, ge=0)
    usd: float = Field(default=0.0, ge=0)
    seconds: float = Field(default=0.0, ge=0)
    calls: int = Field(default=1, ge=1)


class Lesson(Model):
    """A change that was tried on a task, and its effect.

    `gain` is the speedup over the parent, or over the best kernel so far if there is no parent.
    """

    task: str
    what: str
    gain: float | None = None
    fault: str = ""

    def line(self, foreign: bool = False) -> str:
        """Return the lesson as one line; `foreign` adds the task's name."""
        where = f" (on {self.task})" if foreign else ""
        if self.gain is None:
            return f"failed: {self.what}: {self.fault}{where}"
        word = "helped" if self.gain >= HELPED else "hurt" if self.gain <= HURT else "changed nothing"
        return f"{word}: {self.what}: {self.gain:.2f}× its parent{where}"

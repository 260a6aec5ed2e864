"""What the stages of one evaluation share: the task, the candidate, the choices, and what earlier stages left."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from warpsmith.base import HarnessError
from warpsmith.evaluation.check import VIRTUAL_WORK, Scope, Seen, Step, plan, usual_groups
from warpsmith.evaluation.choices import Choices
from warpsmith.evaluation.stages.sketch import sketch_steps
from warpsmith.records import Candidate, Group, Language, Signature, StageResult, Task
from warpsmith.tasks.host.opened import OpenTask

if TYPE_CHECKING:
    from warpsmith.evaluation.timing.recording import Recordings
    from warpsmith.evaluation.timing.sitting import Sitting
    from warpsmith.evaluation.timing.subject import Subject

LIGHT = 1e8  # operations of a case that can be called a hundred times on a GPU
USUAL = {"vgpu": (Group.SMOKE, Group.HELDOUT), "cuda": (Group.DEV, Group.HELDOUT)}


@dataclass
class Desk:
    """One candidate under evaluation. What the stages before left here is `artifact` and what stands after it."""

    target: str
    opened: OpenTask
    task: Task
    candidate: Candidate
    choices: Choices
    seed: int
    artifact: Path | None = None
    seen: tuple[Seen, ...] = field(default=())
    recording: StageResult | None = None
    subject: "Subject | None" = None
    recorded: "Recordings | None" = None
    sitting: "Sitting | None" = None  # begun before anybody is on the clock
    wait_for_torch: Callable[[], None] | None = None  # until its process has loaded, where that was begun

    @property
    def signature(self) -> Signature:
        """The direction's signature."""
        return self.task.signature(self.candidate.direction)

    @property
    def plain(self) -> bool:
        """Whether results are given to the candidate."""
        return self.candidate.language is Language.PLAIN

    def compiled(self) -> Path:
        """The artifact; a stage that asks for it stands after the compiler."""
        if self.artifact is None:
            raise HarnessError("A stage that runs the candidate stands before the compile stage.")
        return self.artifact

    def get_ready(self) -> None:
        """Wait for what the clock would wait for, while others may have the GPU."""
        if self.wait_for_torch is not None:
            self.wait_for_torch()

    def begun_sitting(self) -> "Sitting | None":
        """The sitting that was begun, for whoever closes it; none where it has waited for too long."""
        begun, self.sitting = self.sitting, None
        if begun is None or begun.is_fresh:
            return begun
        begun.close()
        return None

    def close(self) -> None:
        """End what was begun and nobody took."""
        if self.sitting is not None:
            self.sitting.close()
        self.sitting = None

    def steps(self, device: str) -> tuple[Step, ...]:
        """The calls on a device that this evaluation's seed stands for."""
        chosen = self.choices.cases if device == self.choices.device else ()
        bound = VIRTUAL_WORK if device == "vgpu" else None
        before = device != self.choices.device  # only a verifier: the check on the chosen device comes after
        light = LIGHT if device == "cuda" else Scope.light
        scope = Scope(
            groups=chosen or usual_groups(self.task, USUAL[device]), heldout_work=bound, light=light, brief=before
        )
        effort = self.choices.effort if device == self.choices.device == "vgpu" else "usual"
        whole = () if effort == "sketch" else plan(self.task, self.candidate.direction, scope, self.seed)
        few = () if effort == "usual" else sketch_steps(self.task, self.candidate.direction, self.seed)
        return (*whole, *few)

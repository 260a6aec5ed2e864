"""A compiled candidate with fresh calls of its timed cases."""

import random
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from warpsmith.evaluation.timing.sample import USUAL, Examine, TimedCall
from warpsmith.languages import find_language
from warpsmith.records import Case, Direction, Dtype, Family, Task, Trial, Twist
from warpsmith.tasks.host import OpenTask
from warpsmith.tasks.inputs import FAMILIES, SEED_BITS, families_of
from warpsmith.tasks.reference import Problem, outline, problems

RANDOM = random.SystemRandom()
DrawProblem = Callable[[OpenTask, Direction, Trial], Problem]


def draw_on(device: str, opened: OpenTask, direction: Direction, trial: Trial) -> Problem:
    """Return a problem with a secret seed on a device."""
    return next(problems(opened, direction, trial, secrets.randbits(SEED_BITS), device))


def kind_of(trial: Trial) -> str:
    """Return the kind of a timed input: perturbation, family or `usual`."""
    if trial.twist is not Twist.NONE:
        return trial.twist.value
    return USUAL if trial.family is Family.NORMAL else trial.family.value


@dataclass(frozen=True)
class TimingSubject:
    """A compiled candidate, its task and its direction."""

    opened: OpenTask
    target: str
    task: Task
    direction: Direction
    artifact: Path
    language: str
    launches: int  # of a call, as the virtual GPU counted them
    draw: DrawProblem = field(default=partial(draw_on, "cuda"), compare=False, repr=False)
    _turns: dict[Dtype, list[Family]] = field(default_factory=dict, compare=False, repr=False)
    _outlines: dict[str, Problem] = field(default_factory=dict, compare=False, repr=False)

    def calls(self, case: Case) -> Iterator[tuple[Trial, Problem]]:
        """Yield fresh calls of a case without end."""
        # One of each kind of input by turns, in secret order. Inputs of timed calls are never stored, so
        # they come from torch's generator, which is faster than the reproducible one (design/draws.md).
        return self._drawn(lambda: self._counted(case))

    def timed_call(self, trial: Trial, problem: Problem, examine: Examine) -> TimedCall:
        """Return a call with its kind and passed results."""
        given = find_language(self.language).passed_results(problem.native)
        return TimedCall(problem, examine, kind_of(trial), given)

    def kinds(self, case: Case) -> tuple[str, ...]:
        """Return the kinds of input that are timed."""
        return tuple(kind_of(trial) for trial in self._counted(case))

    def others(self, case: Case) -> Iterator[tuple[Trial, Problem]]:
        """Yield calls with other inputs without end."""
        # Other families, other parameters, one changed element, or shuffled values. Families take turns
        # in secret order over a whole evaluation, so none comes twice before each has come once.
        return self._drawn(lambda: self._others(case))

    def _drawn(self, kinds: Callable[[], Sequence[Trial]]) -> Iterator[tuple[Trial, Problem]]:
        """Yield problems of test inputs in secret order."""
        while True:
            for trial in RANDOM.sample(some := kinds(), len(some)):
                yield trial, self.draw(self.opened, self.direction, trial)

    def _counted(self, case: Case) -> list[Trial]:
        """Return the test inputs whose times count."""
        # Values change the power that a GPU draws, so the times of an honest kernel may differ a little
        # between kinds. A kernel with a fast path for usual values alone gains nothing: the slowest kind
        # counts.
        return [Trial(case=case), *self._large(case)]

    def _large(self, case: Case) -> list[Trial]:
        """Return one test input of each kind of large values."""
        # Families that are large everywhere, and one large row: always forward, backward only if the task
        # has no such family.
        all_over = [Trial(case=case, family=family) for family in self._families(case) if FAMILIES[family].large]
        if self.direction is Direction.FORWARD:
            return [*all_over, Trial(case=case, twist=Twist.PEAKED)]
        return all_over or [Trial(case=case, twist=Twist.RAISED)]

    def _others(self, case: Case) -> list[Trial]:
        """Return four test inputs that are only examined."""
        inits = sorted({init for one in self.task.cases for init in one.inits})
        paired = case.dtype is Dtype.FLOAT32 and self.task.forward.pairs_inputs and not self.task.precision.tf32
        twists = (Twist.NUDGED, Twist.SHUFFLED, Twist.SCALED) if paired else (Twist.NUDGED, Twist.SHUFFLED)
        kinds = [
            RANDOM.choice(self._large(case)),
            Trial(case=case, family=self._next_family(case)),
            Trial(case=case, family=self._next_family(case)),
            Trial(case=case, twist=RANDOM.choice(twists)),
        ]
        return [one.model_copy(update={"init": RANDOM.choice(inits)}) for one in kinds]

    def _next_family(self, case: Case) -> Family:
        """Return the next family in turn."""
        left = self._turns.setdefault(case.dtype, [])
        if not left:
            others = {one for one in self._families(case) if not FAMILIES[one].large} - {Family.NORMAL}
            left += RANDOM.sample(sorted(others), len(others)) or [Family.NORMAL]
        return left.pop()

    def _families(self, case: Case) -> set[Family]:
        """Return the families for the case's element type."""
        return set(families_of(self.task, case.dtype))

    def outline(self, case: Case) -> Problem:
        """Return the shapes of a call, without values."""
        if case.name not in self._outlines:
            self._outlines[case.name] = outline(self.opened, self.direction, Trial(case=case))
        return self._outlines[case.name]

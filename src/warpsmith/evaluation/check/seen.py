"""The calls that were right, for whoever models their time or counts their launches."""

from collections.abc import Sequence
from dataclasses import dataclass

from warpsmith.evaluation.check.plan import PlannedCall
from warpsmith.machines.virtual import Facts
from warpsmith.records import Case, Group


@dataclass(frozen=True)
class PassedCall:
    """One call that was right, with what the virtual GPU counted."""

    step: PlannedCall
    worst: float
    facts: Facts | None


def cases_of(seen: Sequence[PassedCall]) -> list[Case]:
    """The cases that were called, by name, held-out ones last."""
    cases = {one.step.trial.case.name: one.step.trial.case for one in seen}
    return sorted(cases.values(), key=lambda case: (case.group is Group.HELDOUT, case.name))

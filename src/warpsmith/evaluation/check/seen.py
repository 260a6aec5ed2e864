"""The calls that passed, for stages that model their time or count their launches."""

from collections.abc import Sequence
from dataclasses import dataclass

from warpsmith.evaluation.check.plan import PlannedCall
from warpsmith.machines.virtual import Facts
from warpsmith.records import Case, Group


@dataclass(frozen=True)
class PassedCall:
    """One call that passed, with the counters of the virtual GPU."""

    step: PlannedCall
    worst: float
    facts: Facts | None


def called_cases(seen: Sequence[PassedCall]) -> list[Case]:
    """Return the cases of the calls by name, held-out cases last."""
    cases = {one.step.trial.case.name: one.step.trial.case for one in seen}
    return sorted(cases.values(), key=lambda case: (case.group is Group.HELDOUT, case.name))

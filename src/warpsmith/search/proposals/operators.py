"""What a model can be asked to do with kernels: one row an operator. Vary by data, not by copy."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Operator:
    """An operator: its template, how many parents it takes, and what else its prompt needs."""

    name: str
    parents: int = 1
    idea: bool = False
    broken: bool = False  # works on a kernel that failed
    patch: bool = False  # is answered by a diff
    context: bool = True  # sees the other kernels


OPERATORS: Mapping[str, Operator] = {
    row.name: row
    for row in (
        Operator("improve", idea=True),
        Operator("rewrite", parents=0, idea=True),
        Operator("crossover", parents=2),
        Operator("simplify"),
        Operator("repair", parents=0, broken=True, context=False),
        Operator("patch", idea=True, patch=True),
    )
}
TUNE = "tune"
SEED = "seed"
TRANSLATE = "translate"


def usable(members: int, broken: int) -> tuple[str, ...]:
    """The operators that have something to work on."""
    return tuple(
        row.name for row in OPERATORS.values() if (broken > 0 if row.broken else members >= max(1, row.parents))
    )

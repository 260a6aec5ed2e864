"""How fast: clocks, stop rule, baselines, statistics. Times are believed only as far as two clocks agree."""

from warpsmith.timing.rules import (
    Doubt,
    Floor,
    below_floor,
    claim,
    clocks_disagree,
    disturbed,
    hidden_work,
    measured,
    ratio,
    too_good,
    undisturbed,
)
from warpsmith.timing.stop import StopRule

__all__ = [
    "Doubt",
    "Floor",
    "StopRule",
    "below_floor",
    "claim",
    "clocks_disagree",
    "disturbed",
    "hidden_work",
    "measured",
    "ratio",
    "too_good",
    "undisturbed",
]

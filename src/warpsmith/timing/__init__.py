"""How fast: clocks, stop rule, baselines, statistics. Times are believed only as far as two clocks agree."""

from warpsmith.timing.rules import (
    Ceilings,
    Doubt,
    LaunchCost,
    below_floor,
    claim,
    clocks_disagree,
    disturbed,
    floor_us,
    hidden_work,
    measured,
    ratio,
    too_good,
    undisturbed,
)
from warpsmith.timing.stop import StopRule

__all__ = [
    "Ceilings",
    "Doubt",
    "LaunchCost",
    "StopRule",
    "below_floor",
    "claim",
    "clocks_disagree",
    "disturbed",
    "floor_us",
    "hidden_work",
    "measured",
    "ratio",
    "too_good",
    "undisturbed",
]

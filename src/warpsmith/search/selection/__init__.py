"""Selection: fitness, population, bandit, tuner and stop rules."""

from typing import TYPE_CHECKING

from warpsmith.base.lazy import lazy_members

if TYPE_CHECKING:
    from warpsmith.search.selection.bandit import Arm, Bandit
    from warpsmith.search.selection.population import Population, RankedKernel, find_fitness, gain_over, slowest_case
    from warpsmith.search.selection.stops import RunProgress, evaluations_left, find_stop
    from warpsmith.search.selection.tuner import TunerTrials, point_of

__getattr__ = lazy_members(__name__)

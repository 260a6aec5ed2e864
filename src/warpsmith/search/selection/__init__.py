"""How kernels are selected: fitness, population, bandit, tuner, stop rules."""

from typing import TYPE_CHECKING

from warpsmith.base.lazy import lazy_members

if TYPE_CHECKING:
    from warpsmith.search.selection.bandit import Arm, Bandit
    from warpsmith.search.selection.fitness import gain, slowest
    from warpsmith.search.selection.population import Population, RankedKernel
    from warpsmith.search.selection.stops import Limits, RunProgress, left, stop
    from warpsmith.search.selection.tuner import Trials, point

__getattr__ = lazy_members(__name__)

"""Which model and which operator pays: an upper-confidence rule over arms, weighed by what a call costs.

Everything follows from the pulls it was told of, in their order, so that a resumed run chooses as the first would have.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import log, sqrt

EXPLORE = 0.6
COST_POWER = 0.5  # a call of four times the price must pay twice as much


@dataclass(frozen=True)
class Arm:
    """A model and what it is asked to do."""

    model: str
    operator: str


@dataclass
class Tally:
    """What an arm gave so far."""

    pulls: int = 0
    reward: float = 0.0
    usd: float = 0.0


@dataclass
class Bandit:
    """The arms with their tallies."""

    arms: Sequence[Arm]
    weights: Mapping[str, float] = field(default_factory=dict)  # of models, as the user gave them; else one
    tallies: dict[Arm, Tally] = field(default_factory=dict)

    def tell(self, arm: Arm, reward: float, usd: float) -> None:
        """One pull: a reward between 0 and 1, and its price."""
        tally = self.tallies.setdefault(arm, Tally())
        tally.pulls += 1
        tally.reward += min(1.0, max(0.0, reward))
        tally.usd += usd

    def choose(self, count: int, allowed: Iterable[str]) -> list[Arm]:
        """The arms for `count` calls at once; a call that is under way counts as one that gave nothing yet."""
        operators = set(allowed)
        open_arms = [arm for arm in self.arms if arm.operator in operators]
        pending: dict[Arm, int] = {}
        chosen: list[Arm] = []
        for _ in range(count if open_arms else 0):
            best = max(open_arms, key=lambda arm: (self._worth(arm, pending, open_arms), -open_arms.index(arm)))
            pending[best] = pending.get(best, 0) + 1
            chosen.append(best)
        return chosen

    def _worth(self, arm: Arm, pending: dict[Arm, int], among: Sequence[Arm]) -> float:
        tally = self.tallies.get(arm, Tally())
        waiting = pending.get(arm, 0)
        total = sum(self.tallies[one].pulls for one in among if one in self.tallies) + sum(pending.values())
        if tally.pulls == 0:
            return 10.0 - waiting  # every arm once before any twice
        tried = tally.pulls + waiting
        hopeful = tally.reward / tried + EXPLORE * sqrt(log(1 + total) / tried)
        dear: float = self._price(arm) ** COST_POWER
        return hopeful * self.weights.get(arm.model, 1.0) / dear

    def _price(self, arm: Arm) -> float:
        """The arm's mean price over the mean of all; one while prices are not known."""
        paid = [tally.usd / tally.pulls for tally in self.tallies.values() if tally.pulls and tally.usd > 0]
        tally = self.tallies.get(arm, Tally())
        if not paid or not tally.pulls or tally.usd <= 0:
            return 1.0
        return (tally.usd / tally.pulls) / (sum(paid) / len(paid))

"""Which model and which operator pays: an upper-confidence rule over arms, weighed by what a call costs.

Everything follows from the pulls it was told of, in their order, so that a resumed run chooses as the first would have.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import log, sqrt

EXPLORE = 0.6
COST_POWER = 0.5  # a call of four times the price must pay twice as much
LEAST_PRICE = 1 / 4  # of the mean: what a free call counts as, since it takes a slot and an evaluation all the same


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
    priced: int = 0  # pulls whose price is known

    @property
    def price_usd(self) -> float | None:
        """The mean price of a pull; None when nobody knows one."""
        return self.usd / self.priced if self.priced else None


@dataclass
class Bandit:
    """The arms with their tallies."""

    arms: Sequence[Arm]
    weights: Mapping[str, float] = field(default_factory=dict)  # of models, as the user gave them; else one
    tallies: dict[Arm, Tally] = field(default_factory=dict)

    def tell(self, arm: Arm, reward: float, usd: float | None) -> None:
        """One pull: a reward between 0 and 1, and its price; None when nobody knows it, 0 when it is free."""
        tally = self.tallies.setdefault(arm, Tally())
        tally.pulls += 1
        tally.reward += min(1.0, max(0.0, reward))
        tally.usd += usd or 0.0
        tally.priced += usd is not None

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
        """The arm's mean price over the mean of all that are known; one while its own is not, or all are free."""
        known = [price for tally in self.tallies.values() if (price := tally.price_usd) is not None]
        price, mean = self.tallies.get(arm, Tally()).price_usd, sum(known) / max(1, len(known))
        return 1.0 if price is None or not mean else max(LEAST_PRICE, price / mean)

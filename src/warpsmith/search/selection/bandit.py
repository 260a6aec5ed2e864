"""The choice of model and operator: upper confidence bounds over price.

The state depends on the pulls and their order alone, so that a resumed run chooses as the first one would have.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import log, sqrt

EXPLORE = 0.6
COST_POWER = 0.5  # a call of four times the price must pay twice as much
LEAST_PRICE = 1 / 4  # of the mean price: the least that a call counts, because it takes a slot and an evaluation


@dataclass(frozen=True)
class Arm:
    """A model and an operator."""

    model: str
    operator: str


@dataclass
class Tally:
    """The pulls, rewards and prices of an arm."""

    pulls: int = 0
    reward: float = 0.0
    usd: float = 0.0
    priced: int = 0  # pulls whose price is known

    @property
    def price_usd(self) -> float | None:
        """The mean price of a pull, or None if no price is known."""
        return self.usd / self.priced if self.priced else None


@dataclass
class Bandit:
    """The arms with their tallies."""

    arms: Sequence[Arm]
    weights: Mapping[str, float] = field(default_factory=dict)  # of models, as the user gave them; 1 by default
    tallies: dict[Arm, Tally] = field(default_factory=dict)

    def add_pull(self, arm: Arm, reward: float, usd: float | None) -> None:
        """Add one pull with its reward, clipped to 0..1, and its price; None is unknown, 0 is free."""
        tally = self.tallies.setdefault(arm, Tally())
        tally.pulls += 1
        # The bound of the exploration term needs rewards between 0 and 1.
        tally.reward += min(1.0, max(0.0, reward))
        tally.usd += usd or 0.0
        tally.priced += usd is not None

    def choose(self, count: int, allowed: Iterable[str]) -> list[Arm]:
        """Return the arms for `count` calls at once. A running call counts as a pull without reward."""
        operators = set(allowed)
        open_arms = [arm for arm in self.arms if arm.operator in operators]
        # The calls of one generation run together, before any reward is known. Counting them as pulls spreads the
        # choice.
        pending: dict[Arm, int] = {}
        chosen: list[Arm] = []
        for _ in range(count if open_arms else 0):
            # Equal worths go to the arm that is listed first, so a resumed run chooses the same arm.
            best = max(open_arms, key=lambda arm: (self._worth(arm, pending, open_arms), -open_arms.index(arm)))
            pending[best] = pending.get(best, 0) + 1
            chosen.append(best)
        return chosen

    def _worth(self, arm: Arm, pending: dict[Arm, int], among: Sequence[Arm]) -> float:
        """Return mean reward plus exploration bonus, times the weight, over the price's root."""
        tally = self.tallies.get(arm, Tally())
        waiting = pending.get(arm, 0)
        total = sum(self.tallies[one].pulls for one in among if one in self.tallies) + sum(pending.values())
        if tally.pulls == 0:
            return 10.0 - waiting  # every arm is tried once before any is tried twice
        tried = tally.pulls + waiting
        # The upper confidence bound UCB1 of Auer et al. (2002), with EXPLORE in place of the square root of 2.
        hopeful = tally.reward / tried + EXPLORE * sqrt(log(1 + total) / tried)
        dear: float = self._price(arm) ** COST_POWER
        return hopeful * self.weights.get(arm.model, 1.0) / dear

    def _price(self, arm: Arm) -> float:
        """Return the arm's mean price over the mean of all arms; 1 if unknown."""
        known = [price for tally in self.tallies.values() if (price := tally.price_usd) is not None]
        price, mean = self.tallies.get(arm, Tally()).price_usd, sum(known) / max(1, len(known))
        return 1.0 if price is None or not mean else max(LEAST_PRICE, price / mean)

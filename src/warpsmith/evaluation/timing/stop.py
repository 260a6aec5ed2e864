"""When enough was measured: a rule is an object that looks at samples and says so."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist

from warpsmith.base import median, quantile

STOP_CONFIDENCE = 0.99  # of an interval that says when to stop and no more: a claim is held to CONFIDENCE


@dataclass(frozen=True)
class StopRule:
    """Stop when the interval of the median is narrow, or at the most samples or seconds that were granted.

    The interval is the distribution-free one between order statistics, n/2 ± z·sqrt(n)/2, with z
    the normal quantile of its level.
    """

    width: float = 0.01  # of the median
    least: int = 11
    most: int = 61
    seconds: float = 4.0
    level: float = STOP_CONFIDENCE

    def done(self, samples: Sequence[float], elapsed_s: float) -> bool:
        """Whether to stop after these samples."""
        if len(samples) < self.least:
            return False
        return len(samples) >= self.most or elapsed_s >= self.seconds or self.spread(samples) <= self.width

    def spread(self, samples: Sequence[float]) -> float:
        """The width of the median's interval, as a share of the median."""
        half = NormalDist().inv_cdf((1 + self.level) / 2) / (2 * sqrt(len(samples)))
        low, high = quantile(samples, max(0.0, 0.5 - half)), quantile(samples, min(1.0, 0.5 + half))
        return (high - low) / median(samples)

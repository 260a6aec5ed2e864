"""Order statistics, bootstrap intervals and rank correlation in plain Python."""

from collections.abc import Iterable, Sequence
from math import comb, exp, log

# 99.9 %: a search compares hundreds of kernels, and a chance win among them would be handed out.
CONFIDENCE = 0.999  # of every interval that a claim is made of


def quantile(values: Sequence[float], share: float) -> float:
    """Return the `share` quantile, interpolated linearly between order statistics."""
    if not values:
        raise ValueError("quantile of no values")
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    # Linear interpolation between order statistics, as numpy.quantile does by default.
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def median(values: Sequence[float]) -> float:
    """Return the median."""
    return quantile(values, 0.5)


def geomean(values: Iterable[float]) -> float:
    """Return the geometric mean of at least one positive value."""
    logs = [log(value) for value in values]
    return exp(sum(logs) / len(logs))


def bootstrap_ratio(top: Sequence[float], bottom: Sequence[float], level: float = CONFIDENCE) -> tuple[float, float]:
    """Return the percentile-bootstrap interval at `level` of median(top) / median(bottom).

    The distribution of a resample's median is known exactly, so no resample is drawn.
    """
    above, below = _median_distribution(top).items(), _median_distribution(bottom).items()
    ratios = sorted((a / b, share_a * share_b) for a, share_a in above for b, share_b in below)
    tail = (1 - level) / 2
    return _weighted_quantile(ratios, tail), _weighted_quantile(ratios, 1 - tail)


def _median_distribution(values: Sequence[float]) -> dict[float, float]:
    """Return how probable each value is as the median of a resample with replacement.

    Of an even number of values, the lower and the upper middle one count half each.
    """
    ordered, count = sorted(values), len(values)
    middles = [(count - 1) // 2, count // 2]  # from 0: the order statistics that are the median
    shares: dict[float, float] = {}
    before = 0.0
    for place, value in enumerate(ordered, 1):
        upto = sum(_tail_probability(place, count, middle) for middle in middles) / 2
        shares[value] = shares.get(value, 0.0) + upto - before
        before = upto
    return shares


def _tail_probability(places: int, count: int, middle: int) -> float:
    """Return the probability that more than `middle` of `count` draws are among the `places` smallest values."""
    share = places / count
    # The number of draws among the smallest `places` values is binomial; a draw is with replacement.
    return sum(comb(count, k) * share**k * (1 - share) ** (count - k) for k in range(middle + 1, count + 1))


def _weighted_quantile(pairs: Sequence[tuple[float, float]], share: float) -> float:
    """Return the quantile of values whose weights sum to one."""
    reached = 0.0
    for value, weight in pairs:
        reached += weight
        if reached >= share:
            # Rounding may leave the sum of the weights slightly below 1, so the last value answers for the rest.
            return value
    return pairs[-1][0]


def rank_values(values: Sequence[float]) -> list[float]:
    """Return ranks from 1; tied values share their mean rank."""
    order = sorted(range(len(values)), key=values.__getitem__)
    found = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end + 1 < len(order) and values[order[end + 1]] == values[order[start]]:
            end += 1
        for place in order[start : end + 1]:
            found[place] = (start + end) / 2 + 1
        start = end + 1
    return found


def spearman(left: Sequence[float], right: Sequence[float]) -> float:
    """Return Spearman's rank correlation, or nan without variation."""
    if len(left) != len(right) or len(left) < 2:
        return float("nan")
    a, b = rank_values(left), rank_values(right)
    mean = (len(a) + 1) / 2
    cov = sum((x - mean) * (y - mean) for x, y in zip(a, b, strict=True))
    spread = sum((x - mean) ** 2 for x in a) * sum((y - mean) ** 2 for y in b)
    return cov / spread**0.5 if spread else float("nan")

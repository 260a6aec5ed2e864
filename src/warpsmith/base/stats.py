"""Order statistics, a bootstrap of a ratio of medians, rank correlation. Plain Python: samples are small."""

from collections.abc import Iterable, Sequence
from math import comb, exp, log


def quantile(values: Sequence[float], share: float) -> float:
    """The `share` quantile with linear interpolation between order statistics."""
    if not values:
        raise ValueError("quantile of no values")
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def median(values: Sequence[float]) -> float:
    """The middle value."""
    return quantile(values, 0.5)


def geomean(values: Iterable[float]) -> float:
    """The geometric mean of positive values, of which there is at least one."""
    logs = [log(value) for value in values]
    return exp(sum(logs) / len(logs))


def bootstrap_ratio(top: Sequence[float], bottom: Sequence[float], level: float = 0.999) -> tuple[float, float]:
    """The interval at `level` of median(top) / median(bottom), by percentile bootstrap carried to its limit.

    How often each value is the median of a resample is known exactly, so nothing needs to be drawn.
    """
    above, below = _medians(top).items(), _medians(bottom).items()
    ratios = sorted((a / b, share_a * share_b) for a, share_a in above for b, share_b in below)
    tail = (1 - level) / 2
    return _weighted(ratios, tail), _weighted(ratios, 1 - tail)


def _medians(values: Sequence[float]) -> dict[float, float]:
    """How often each value is the median of as many draws with replacement; of an even number either middle one."""
    ordered, count = sorted(values), len(values)
    middles = [(count - 1) // 2, count // 2]  # from 0: the order statistics that are the median
    shares: dict[float, float] = {}
    before = 0.0
    for place, value in enumerate(ordered, 1):
        upto = sum(_reached(place, count, middle) for middle in middles) / 2
        shares[value] = shares.get(value, 0.0) + upto - before
        before = upto
    return shares


def _reached(places: int, count: int, middle: int) -> float:
    """How often more than `middle` of `count` draws fall on the first `places` values."""
    share = places / count
    return sum(comb(count, k) * share**k * (1 - share) ** (count - k) for k in range(middle + 1, count + 1))


def _weighted(pairs: Sequence[tuple[float, float]], share: float) -> float:
    """The quantile of values with weights that sum to one."""
    reached = 0.0
    for value, weight in pairs:
        reached += weight
        if reached >= share:
            return value
    return pairs[-1][0]


def ranks(values: Sequence[float]) -> list[float]:
    """Ranks from 1, ties sharing their mean rank."""
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
    """Spearman's rank correlation; nan when either side does not vary or the lengths differ from two up."""
    if len(left) != len(right) or len(left) < 2:
        return float("nan")
    a, b = ranks(left), ranks(right)
    mean = (len(a) + 1) / 2
    cov = sum((x - mean) * (y - mean) for x, y in zip(a, b, strict=True))
    spread = sum((x - mean) ** 2 for x in a) * sum((y - mean) ** 2 for y in b)
    return cov / spread**0.5 if spread else float("nan")

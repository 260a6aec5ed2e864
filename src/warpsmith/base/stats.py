"""Order statistics, a bootstrap of a ratio of medians, rank correlation. Plain Python: samples are small."""

import random
from collections.abc import Iterable, Sequence
from math import exp, log


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


def bootstrap_ratio(
    top: Sequence[float], bottom: Sequence[float], level: float = 0.999, rounds: int = 4000, seed: int = 0
) -> tuple[float, float]:
    """The interval at `level` of median(top) / median(bottom), by percentile bootstrap with a fixed seed."""
    draw = random.Random(seed)
    ratios = [
        median(draw.choices(top, k=len(top))) / median(draw.choices(bottom, k=len(bottom))) for _ in range(rounds)
    ]
    tail = (1 - level) / 2
    return quantile(ratios, tail), quantile(ratios, 1 - tail)


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

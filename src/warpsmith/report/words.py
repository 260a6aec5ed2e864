"""Numbers and scores as the report says them. A modelled time is called modelled wherever it stands."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from warpsmith.base import geomean
from warpsmith.records import Case, MeasuredScore, Score

SHORT = 12  # digits of an id that are shown


def speedup(value: float | None) -> str:
    """A ratio of times."""
    return "–" if value is None else f"{value:.3g}×"


def micro(value: float | None) -> str:
    """A time in µs."""
    return "–" if value is None else f"{value:.4g} µs"


def interval(value: float | None, low: float | None, high: float | None) -> str:
    """A ratio of times with its bounds."""
    if value is None or low is None or high is None:
        return "–"
    return f"{value:.3f}× ({low:.3f}–{high:.3f})"


def percent(value: float | None) -> str:
    """A share."""
    return "–" if value is None else f"{value:.0%}"


def error(value: float | None) -> str:
    """An error over its bound."""
    return "–" if value is None else f"{value:.2g}"


def foot(made: datetime, package: str) -> str:
    """When and by what a page was made."""
    return f"made {made:%Y-%m-%d %H:%M} UTC by warpsmith {package}"


def score_words(score: Score | None) -> str:
    """A speedup with its interval, or a modelled time."""
    if score is None:
        return "–"
    if isinstance(score, MeasuredScore):
        return interval(score.value, score.low, score.high)
    return f"{score.us:.4g} µs modelled"


def macro_words(macros: Mapping[str, str]) -> str:
    """Macros as a compiler's flags."""
    return " ".join(f"-D{name}={value}" for name, value in sorted(macros.items()))


def shape_words(case: Case) -> str:
    """The axes of a case."""
    return " ".join(f"{name}={value}" for name, value in case.axes.items())


def lines_of(text: str) -> list[str]:
    """Lines as a compiler counts them; Python's own `splitlines` also ends one at a form feed."""
    return text.removesuffix("\n").split("\n")


def mean_of(values: Iterable[float]) -> float | None:
    """The geometric mean of those above zero; None of nothing."""
    positive = [value for value in values if value > 0]
    return geomean(positive) if positive else None

"""Numbers and scores as text. A modelled time is always marked as modelled."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from warpsmith.base import geomean
from warpsmith.records import Case, MeasuredScore, Score

SHORT = 12  # digits of an id that are shown


def format_speedup(value: float | None) -> str:
    """Format a ratio of times."""
    return "–" if value is None else f"{value:.3g}×"


def format_us(value: float | None) -> str:
    """Format a time in µs."""
    return "–" if value is None else f"{value:.4g} µs"


def format_interval(value: float | None, low: float | None, high: float | None) -> str:
    """Format a ratio of times with its interval."""
    if value is None or low is None or high is None:
        return "–"
    return f"{value:.3f}× ({low:.3f}–{high:.3f})"


def format_percent(value: float | None) -> str:
    """Format a share."""
    return "–" if value is None else f"{value:.0%}"


def format_error(value: float | None) -> str:
    """Format an error over its bound."""
    return "–" if value is None else f"{value:.2g}"


def page_footer(made: datetime, package: str) -> str:
    """Return when and by which version a page was made."""
    return f"made {made:%Y-%m-%d %H:%M} UTC by warpsmith {package}"


def describe_score(score: Score | None) -> str:
    """Format a speedup with its interval, or a modelled time."""
    if score is None:
        return "–"
    if isinstance(score, MeasuredScore):
        return format_interval(score.value, score.low, score.high)
    return f"{score.us:.4g} µs modelled"


def macro_flags(macros: Mapping[str, str]) -> str:
    """Format macros as compiler flags."""
    return " ".join(f"-D{name}={value}" for name, value in sorted(macros.items()))


def describe_shape(case: Case) -> str:
    """Format the axes of a case."""
    return " ".join(f"{name}={value}" for name, value in case.axes.items())


def lines_of(text: str) -> list[str]:
    """Split lines as a compiler does; Python's `splitlines` also splits at a form feed."""
    return text.removesuffix("\n").split("\n")


def positive_geomean(values: Iterable[float]) -> float | None:
    """Return the positive values' geometric mean, or None."""
    # The logarithm of 0 is infinite.
    positive = [value for value in values if value > 0]
    return geomean(positive) if positive else None

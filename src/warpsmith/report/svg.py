"""Small plots as inline SVG, coloured by the page's style sheet."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

WIDTH, HEIGHT = 480, 270
LEFT, TOP, RIGHT, BOTTOM = 58, 16, 468, 226
BAR, BAR_LEFT, BAR_RIGHT = 24, 212, 405
LOG_FROM = 8.0  # largest over smallest, from which an axis is logarithmic
LABEL_CHARACTERS = 23


@dataclass(frozen=True)
class Dot:
    """A point with its tooltip; `better` points are joined by the line of the best so far."""

    x: float
    y: float
    words: str
    better: bool = False


@dataclass(frozen=True)
class Bar:
    """A bar with its name, length, number as text, and kind (good, bad, odd, plain)."""

    name: str
    value: float
    text: str
    kind: str = "plain"


@dataclass(frozen=True)
class Scale:
    """A linear or logarithmic map from values to positions."""

    low: float
    high: float
    log: bool
    start: float
    end: float

    def at(self, value: float) -> float:
        # `or 1.0` keeps a range of one value from dividing by zero.
        """Return the position of a value."""
        low, high, here = (log10(v) if self.log else v for v in (self.low, self.high, value))
        return self.start + (here - low) / ((high - low) or 1.0) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Return a few round values inside the range."""
        return _log_ticks(self.low, self.high) if self.log else _linear_ticks(self.low, self.high)


def progress_svg(dots: Sequence[Dot], x_label: str, y_label: str) -> str:
    """Draw every score as a point and the best so far as a line; each point has a tooltip."""
    x = _scale([dot.x for dot in dots], LEFT, RIGHT, zero=True)
    y = _scale([dot.y for dot in dots], BOTTOM, TOP)
    parts = [*_axes(x, y, x_label, y_label), _best_line(dots, x, y)]
    # Better points are drawn last, so that they lie above all others.
    for dot in sorted(dots, key=lambda one: one.better):
        kind, radius = ("w-better", 4) if dot.better else ("w-dot", 2.5)
        place = f'cx="{x.at(dot.x):.1f}" cy="{y.at(dot.y):.1f}" r="{radius}"'
        parts.append(f'<circle {place} class="{kind}"><title>{escape(dot.words)}</title></circle>')
    return _svg(parts, HEIGHT, f"{y_label} over {x_label}")


def bars_svg(bars: Sequence[Bar], label: str, most: float | None = None) -> str:
    """Draw horizontal bars from zero; `most` is the value of a full bar."""
    # Without a given maximum, the longest bar is full.
    full = most or max((bar.value for bar in bars), default=1.0) or 1.0
    parts: list[str] = []
    for place, bar in enumerate(bars):
        y = 8 + place * BAR
        # At least one pixel, so that a small value stays visible.
        length = max(1.0, min(bar.value / full, 1.0) * (BAR_RIGHT - BAR_LEFT))
        parts.append(f'<text x="{BAR_LEFT - 8}" y="{y + 13}" class="w-label w-end">{escape(_shorten(bar.name))}</text>')
        size = f'x="{BAR_LEFT}" y="{y}" width="{length:.1f}" height="17" rx="2"'
        parts.append(f'<rect {size} class="w-{bar.kind}"><title>{escape(f"{bar.name}: {bar.text}")}</title></rect>')
        parts.append(f'<text x="{BAR_LEFT + length + 6:.1f}" y="{y + 13}" class="w-label">{escape(bar.text)}</text>')
    return _svg(parts, 16 + BAR * max(1, len(bars)), label)


def _best_line(dots: Sequence[Dot], x: Scale, y: Scale) -> str:
    """Return the path of the best score so far, as steps to the last evaluation."""
    best = [dot for dot in dots if dot.better]
    if not best:
        return ""
    path = f"M{x.at(best[0].x):.1f} {y.at(best[0].y):.1f}"
    path += "".join(f"H{x.at(dot.x):.1f}V{y.at(dot.y):.1f}" for dot in best[1:])
    last = max(dot.x for dot in dots)
    return f'<path d="{path}H{x.at(last):.1f}" class="w-best"/>'


def _axes(x: Scale, y: Scale, x_label: str, y_label: str) -> Iterator[str]:
    for tick in y.ticks():
        at = y.at(tick)
        yield f'<line x1="{LEFT}" y1="{at:.1f}" x2="{RIGHT}" y2="{at:.1f}" class="w-grid"/>'
        yield f'<text x="{LEFT - 6}" y="{at + 4:.1f}" class="w-label w-end">{_number(tick)}</text>'
    for tick in x.ticks():
        at = x.at(tick)
        yield f'<line x1="{at:.1f}" y1="{BOTTOM}" x2="{at:.1f}" y2="{BOTTOM + 4}" class="w-grid"/>'
        yield f'<text x="{at:.1f}" y="{BOTTOM + 18}" class="w-label w-mid">{_number(tick)}</text>'
    yield f'<line x1="{LEFT}" y1="{BOTTOM}" x2="{RIGHT}" y2="{BOTTOM}" class="w-axis"/>'
    yield f'<text x="{(LEFT + RIGHT) / 2}" y="{BOTTOM + 38}" class="w-label w-mid">{escape(x_label)}</text>'
    logged = ", logarithmic" if y.log else ""
    yield f'<text x="{LEFT}" y="{TOP - 4}" class="w-label">{escape(y_label)}{logged}</text>'


def _scale(values: Sequence[float], start: float, end: float, zero: bool = False) -> Scale:
    low, high = min(values, default=0.0), max(values, default=1.0)
    # Scores often span orders of magnitude, and a linear axis would hide the small ones.
    if not zero and low > 0 and high / low > LOG_FROM:
        return Scale(low / 1.1, high * 1.1, True, start, end)
    room = (high - low) * 0.06 or abs(high) * 0.1 or 1.0
    return Scale(0.0 if zero else max(0.0, low - room), high + (0.0 if zero and high else room), False, start, end)


def _linear_ticks(low: float, high: float) -> list[float]:
    rough = (high - low) / 5 or 1.0
    power = 10.0 ** floor(log10(rough))
    step = next(power * unit for unit in (1, 2, 5, 10) if power * unit >= rough)
    # Rounded, since multiples of 0.1 have long decimal forms in binary floating point.
    return [round(place * step, 12) for place in range(ceil(low / step), floor(high / step) + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    powers = range(floor(log10(low)), ceil(log10(high)) + 1)
    units = (1, 2, 5) if high / low < 100 else (1,)
    return [unit * 10.0**power for power in powers for unit in units if low <= unit * 10.0**power <= high]


def _number(value: float) -> str:
    return f"{value:.4g}"


def _shorten(text: str) -> str:
    return text if len(text) <= LABEL_CHARACTERS else f"{text[: LABEL_CHARACTERS - 1]}…"


def _svg(parts: Sequence[str], height: int, label: str) -> str:
    head = f'<svg viewBox="0 0 {WIDTH} {height}" class="plot" role="img" aria-label="{escape(label)}">'
    return "\n".join([head, *filter(None, parts), "</svg>"])

"""The roofline plot as SVG: ceilings, the call, its kernels, baselines."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import atan2, ceil, degrees, floor, log10

from warpsmith.evaluation.profile import microseconds, scaled, share, short_name
from warpsmith.records import Ceilings, MeasuredTime, ModelledTime, ProfileFacts, RooflinePlace

WIDTH = 780
LEFT, TOP, RIGHT, BOTTOM = 110, 46, 740, 390
LEGEND, LINE_HEIGHT = BOTTOM + 56, 22
NEAR, STEP = 17.0, 20.0  # signs that would cover each other stand beside each other
MOST_KERNELS = 6
LIGHT = {
    "paper": "#ffffff",
    "ink": "#1f2430",
    "soft": "#5c6370",
    "grid": "#e4e7ec",
    "dram": "#1f6feb",
    "l2": "#6f86b8",
    "flops": "#8a5a00",
    "call": "#c62a4b",
    "kernel": "#12805c",
    "mark": "#7a5af5",
}
DARK = {
    "paper": "#14161b",
    "ink": "#e8eaef",
    "soft": "#9aa3b2",
    "grid": "#2a2e37",
    "dram": "#6cb0ff",
    "l2": "#8fa6d8",
    "flops": "#e0b060",
    "call": "#ff6b88",
    "kernel": "#4fd1a5",
    "mark": "#b3a1ff",
}


@dataclass(frozen=True)
class Mark:
    """A baseline of the same call."""

    name: str
    us: float


@dataclass(frozen=True)
class _Point:
    """A labelled point of the plot."""

    kind: str
    label: str
    intensity: float
    flops_per_s: float


def roofline_svg(facts: ProfileFacts, marks: Sequence[Mark] = (), title: str = "") -> str:
    """Draw the roofline plot; without known points, draw the ceilings alone."""
    ceilings = facts.ceilings
    if ceilings is None:
        raise ValueError("a profile without ceilings has no roofline")
    points = list(_points(facts, marks))
    axes = _Axes.around(points, ceilings)
    height = LEGEND + LINE_HEIGHT * (max(1, len(points)) + 1)
    body = [
        f'<rect width="{WIDTH}" height="{height}" class="paper"/>',
        f'<text x="{LEFT}" y="28" class="ink title">{escape(title or "Roofline")}</text>',
        f'<text x="{RIGHT}" y="28" class="soft end">{escape(_subtitle(facts, ceilings))}</text>',
        *_grid(axes),
        *_ceilings(axes, ceilings),
        *_signs(axes, points),
        *_legend(points),
    ]
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    return "\n".join([head, f"<style>{_style()}</style>", *body, "</svg>"]) + "\n"


def _subtitle(facts: ProfileFacts, ceilings: Ceilings) -> str:
    return f"{facts.gpu}, ceilings {'measured' if ceilings.measured else 'of the datasheet'}"


@dataclass(frozen=True)
class _Axes:
    """Two logarithmic axes between powers of ten."""

    x0: int
    x1: int
    y0: int
    y1: int

    @classmethod
    def around(cls, points: Sequence[_Point], ceilings: Ceilings) -> "_Axes":
        # Without a measured product rate, 10 TFLOP/s gives the axis a top.
        top = max(ceilings.matmul_flops_per_s.values(), default=1e13)
        ridge = top / ceilings.read_bytes_per_s
        xs = [0.1, 10 * ridge, *(point.intensity for point in points)]
        ys = [top * 2, *(point.flops_per_s for point in points)]
        # Room below the lowest point and below the bandwidth line at 0.1 operations a byte.
        low = min([0.1 * ceilings.read_bytes_per_s / 2, *(point.flops_per_s / 2 for point in points)])
        return cls(floor(log10(min(xs))), ceil(log10(max(xs))), floor(log10(low)), ceil(log10(max(ys))))

    def x(self, intensity: float) -> float:
        return LEFT + (log10(intensity) - self.x0) / (self.x1 - self.x0) * (RIGHT - LEFT)

    def y(self, flops_per_s: float) -> float:
        return BOTTOM - (log10(flops_per_s) - self.y0) / (self.y1 - self.y0) * (BOTTOM - TOP)


def _points(facts: ProfileFacts, marks: Sequence[Mark]) -> Iterator[_Point]:
    if facts.time is not None and facts.place is not None:
        text = f"the call: {_time(facts.time)}, {share(facts.place.fraction)} of the roofline"
        yield from _point_at("call", f"{text}{_bound(facts.place)}", facts.place)
        yield from _baselines(facts, marks)
    for kernel in sorted(facts.kernels, key=lambda one: -(one.time.us if one.time else 0.0))[:MOST_KERNELS]:
        if kernel.place is not None and kernel.time is not None:
            words = f"{short_name(kernel.name)}: {_time(kernel.time)}{_bound(kernel.place)}"
            yield from _point_at("kernel", words, kernel.place)


def _baselines(facts: ProfileFacts, marks: Sequence[Mark]) -> Iterator[_Point]:
    """Yield baselines: equal work in another time has equal intensity at another rate."""
    place, time = facts.place, facts.time
    if place is None or time is None or not place.intensity or not place.flops_per_s:
        return
    for mark in marks:
        # The same operations in another time.
        rate = place.flops_per_s * time.us / mark.us
        yield _Point("mark", f"{mark.name}: {microseconds(mark.us)}", place.intensity, rate)


def _point_at(kind: str, label: str, place: RooflinePlace) -> Iterator[_Point]:
    if place.intensity and place.flops_per_s:
        yield _Point(kind, label, place.intensity, place.flops_per_s)


def _time(time: MeasuredTime | ModelledTime) -> str:
    return microseconds(time.us) + (" modelled" if isinstance(time, ModelledTime) else "")


def _bound(place: RooflinePlace) -> str:
    return f", bound by {place.binding}" if place.binding else ""


def _grid(axes: _Axes) -> Iterator[str]:
    for power in range(axes.x0, axes.x1 + 1):
        x = axes.x(10.0**power)
        yield f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{BOTTOM}" class="grid"/>'
        yield f'<text x="{x:.1f}" y="{BOTTOM + 18}" class="soft mid">{_power(power)}</text>'
    for power in range(axes.y0, axes.y1 + 1):
        y = axes.y(10.0**power)
        yield f'<line x1="{LEFT}" y1="{y:.1f}" x2="{RIGHT}" y2="{y:.1f}" class="grid"/>'
        yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" class="soft end">{scaled(10.0**power, "FLOP/s")}</text>'
    middle = (LEFT + RIGHT) / 2
    yield f'<text x="{middle}" y="{BOTTOM + 38}" class="soft mid">operations a byte of memory</text>'


def _ceilings(axes: _Axes, ceilings: Ceilings) -> Iterator[str]:
    top = max(ceilings.matmul_flops_per_s.values(), default=10.0**axes.y1)
    if ceilings.l2_bytes_per_s:
        yield from _slope(axes, ceilings.l2_bytes_per_s, top, "l2", f"L2 {scaled(ceilings.l2_bytes_per_s, 'B/s')}")
    rate = ceilings.read_bytes_per_s
    yield from _slope(axes, rate, top, "dram", f"DRAM {scaled(rate, 'B/s')}")
    for rates, names in _group_rates(ceilings):
        # A compute ceiling begins where the bandwidth line reaches it: the ridge point.
        y, start = axes.y(rates), max(axes.x(rates / rate), LEFT)
        yield f'<line x1="{start:.1f}" y1="{y:.1f}" x2="{RIGHT}" y2="{y:.1f}" class="flops line"/>'
        yield f'<text x="{RIGHT - 4}" y="{y - 5:.1f}" class="flops-text end">{names} {scaled(rates, "FLOP/s")}</text>'


def _group_rates(ceilings: Ceilings) -> Iterator[tuple[float, str]]:
    """Yield matrix product rates; rates within 10 % of each other share a line."""
    left = sorted(ceilings.matmul_flops_per_s.items(), key=lambda pair: -pair[1])
    while left:
        near = [pair for pair in left if pair[1] > 0.9 * left[0][1]]
        yield left[0][1], ", ".join(name for name, _ in near)
        left = left[len(near) :]


def _slope(axes: _Axes, rate: float, top: float, kind: str, label: str) -> Iterator[str]:
    """Draw a line of constant bandwidth up to the highest compute ceiling."""
    start = max(10.0**axes.x0, 10.0**axes.y0 / rate)
    end = min(top / rate, 10.0**axes.x1)
    x1, y1, x2, y2 = axes.x(start), axes.y(start * rate), axes.x(end), axes.y(end * rate)
    yield f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind} line"/>'
    above = -8 if kind == "l2" else 18
    # The geometric mean of both ends is the middle on a logarithmic axis.
    at = start * (end / start) ** 0.5
    turn = -degrees(atan2(y1 - y2, x2 - x1))
    x, y = axes.x(at), axes.y(at * rate) + above
    turned = f'transform="rotate({turn:.1f} {x:.1f} {y:.1f})"'
    yield f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}-text mid" {turned}>{label}</text>'


def _signs(axes: _Axes, points: Sequence[_Point]) -> Iterator[str]:
    """Draw the points above all lines; a point that would cover another moves right, with a line to its place."""
    taken: list[tuple[float, float]] = []
    signs: list[str] = []
    for number, point in enumerate(points, 1):
        x, y = axes.x(point.intensity), axes.y(point.flops_per_s)
        aside = _free_x(x, y, taken)
        taken.append((aside, y))
        signs.append(_sign(point.kind, aside, y, number))
        if aside != x:
            yield f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{aside:.1f}" y2="{y:.1f}" class="{point.kind} lead"/>'
    # Signs are drawn after all leads, so that no lead crosses a sign.
    yield from signs


def _free_x(x: float, y: float, taken: Sequence[tuple[float, float]]) -> float:
    """Return the nearest free position to the right at the same height."""
    while any(abs(x - other) < NEAR and abs(y - height) < NEAR for other, height in taken):
        x += STEP
    return x


def _sign(kind: str, x: float, y: float, number: int) -> str:
    if kind == "mark":
        corners = f"{x:.1f},{y - 9:.1f} {x + 9:.1f},{y:.1f} {x:.1f},{y + 9:.1f} {x - 9:.1f},{y:.1f}"
        shape = f'<polygon points="{corners}" class="mark sign"/>'
    else:
        shape = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="9" class="{kind} sign"/>'
    return f'{shape}<text x="{x:.1f}" y="{y + 4:.1f}" class="number mid">{number}</text>'


def _legend(points: Sequence[_Point]) -> Iterator[str]:
    for number, point in enumerate(points, 1):
        y = LEGEND + LINE_HEIGHT * number
        yield _sign(point.kind, LEFT + 9, y - 4, number)
        yield f'<text x="{LEFT + 26}" y="{y}" class="ink">{escape(point.label)}</text>'
    if not points:
        words = "no place is known: no counters and no formulas"
        yield f'<text x="{LEFT}" y="{LEGEND + LINE_HEIGHT}" class="soft">{words}</text>'


def _power(power: int) -> str:
    return f"{10.0**power:g}"


def _style() -> str:
    base = (
        "text{font:13px system-ui,sans-serif}.title{font-size:16px;font-weight:600}.mid{text-anchor:middle}"
        ".end{text-anchor:end}.line{stroke-width:2;fill:none}.l2.line{stroke-dasharray:6 4}.sign{stroke-width:1.5}"
        ".number{font-size:11px;font-weight:600}"
    )
    return f"{base}{_colours(LIGHT)}@media (prefers-color-scheme: dark){{{_colours(DARK)}}}"


def _colours(table: dict[str, str]) -> str:
    rules = [f".paper{{fill:{table['paper']}}}.ink{{fill:{table['ink']}}}.soft{{fill:{table['soft']}}}"]
    rules += [f".grid{{stroke:{table['grid']}}}.number{{fill:{table['paper']}}}.sign{{stroke:{table['paper']}}}"]
    rules += [
        f".{kind}.line{{stroke:{table[kind]}}}.{kind}-text{{fill:{table[kind]}}}" for kind in ("dram", "l2", "flops")
    ]
    signs = ("call", "kernel", "mark")
    rules += [f".{kind}.sign{{fill:{table[kind]}}}.{kind}.lead{{stroke:{table[kind]}}}" for kind in signs]
    return "".join(rules)

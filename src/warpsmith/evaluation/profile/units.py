"""Numbers as people write them, with their unit."""

from warpsmith.records import Metric

STEPS = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def scaled(value: float, unit: str) -> str:
    """Three digits and a prefix: 134 MB, 4.29 TB/s."""
    for size, prefix in STEPS:
        if abs(value) >= size:
            return f"{value / size:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}".rstrip()


def share(value: float | None) -> str:
    """A share as a percentage."""
    return f"{value:.0%}" if value is not None else "-"


def microseconds(value: float) -> str:
    """A time in the unit that the package counts in."""
    return f"{value:.4g} µs"


def metric(one: Metric) -> str:
    """A metric in words; names read like `occupancy 12 %`."""
    if one.unit == "GB/s":
        return f"{one.name} {scaled(one.value * 1e9, 'B/s')}"
    if one.unit == "%":
        number = f"{one.value:.0f}%"
        return f"{number} {one.name}" if one.name.startswith("of ") else f"{one.name} {number}"
    return f"{one.name} {scaled(one.value, one.unit)}" if not one.unit else f"{one.name} {one.value:.3g} {one.unit}"

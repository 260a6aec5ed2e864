"""Texts for kernel names, numbers and metrics."""

import re
from collections.abc import Mapping

from warpsmith.records import Metric

MOST_CHARACTERS = 60
STEPS = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
# A bound is named by its resource: the least time that a launch needs there, whatever else it does.
BOUNDS: Mapping[str, str] = {
    "dram": "the distinct bytes that it reads and writes",
    "l2": "sectors that the L1 does not hold",
    "stores": "stored sectors, those filled in part read again",
    "atomics": "atomics that wait for each other in the L2",
    "l1": "sectors through the load and store path",
    "shared": "turns of shared memory, bank conflicts among them",
    "issue": "instructions of all warps through the schedulers",
    "latency": "the longest warp, each step waiting for the last",
}
OTHERS: Mapping[str, str] = {
    "a launch": "what starting a kernel costs",
    "sectors a request": "4 where each thread touches its own next 4 bytes, 16 where 16",
    "bank conflicts a launch": "turns of shared memory beyond one a request",
    "occupancy": "warps that are there to hide waiting",
}
PIPE = " pipe"


def plain_name(text: str) -> str:
    """Return a kernel's own name without scope and parameters."""
    return _mangled(text) if text.startswith("_Z") else _demangled(text)


def short_name(text: str) -> str:
    """Return the plain name, cut at 60 characters."""
    name = plain_name(text)
    return name if len(name) <= MOST_CHARACTERS else f"{name[: MOST_CHARACTERS - 1]}…"


def _mangled(text: str) -> str:
    """Return the last part of a mangled name."""
    # Itanium mangling: `_ZN` is followed by lengths and parts, the last of which is the kernel's name.
    rest, found = text.removeprefix("_Z").removeprefix("N"), text
    while length := re.match(r"\d+", rest):
        rest = rest[length.end() :]
        found, rest = rest[: int(length[0])], rest[int(length[0]) :]
    return found


def _demangled(text: str) -> str:
    """Return the text before the parameters."""
    # An anonymous namespace has parentheses of its own, and template arguments may contain some, so only
    # a parenthesis outside of angle brackets ends the name.
    bare = text.replace("(anonymous namespace)::", "").replace("<unnamed>::", "").strip().removeprefix("void ")
    depth = 0
    for place, letter in enumerate(bare):
        depth += (letter == "<") - (letter == ">" and bare[place - 1] != "-")
        if letter == "(" and depth == 0:
            return bare[:place]
    return bare


def scaled(value: float, unit: str) -> str:
    """Return a number with three digits and a prefix."""
    for size, prefix in STEPS:
        if abs(value) >= size:
            return f"{value / size:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}".rstrip()


def share(value: float | None) -> str:
    """Return a percentage, or `-` for None."""
    return f"{value:.0%}" if value is not None else "-"


def microseconds(value: float) -> str:
    """Return a time with four digits in microseconds."""
    return f"{value:.4g} µs"


def metric(one: Metric) -> str:
    """Return a metric as text with its unit."""
    if one.unit == "GB/s":
        return f"{one.name} {scaled(one.value * 1e9, 'B/s')}"
    if one.unit == "%":
        number = f"{one.value:.0f}%"
        return f"{number} {one.name}" if one.name.startswith("of ") else f"{one.name} {number}"
    return f"{one.name} {scaled(one.value, one.unit)}" if not one.unit else f"{one.name} {one.value:.3g} {one.unit}"


def meaning(one: Metric) -> str:
    """Return a metric's meaning; empty if unknown."""
    resource = one.name.removesuffix(" bound")
    if resource == one.name:
        return OTHERS.get(one.name.partition(",")[0], "")
    if resource.endswith(PIPE):
        return f"{resource.removesuffix(PIPE)} instructions"
    return BOUNDS.get(resource, "")


def explain_metric(one: Metric) -> str:
    """Return name, value, unit and meaning of a metric."""
    why = meaning(one)
    return f"{metric(one)}: {why}" if why else metric(one)

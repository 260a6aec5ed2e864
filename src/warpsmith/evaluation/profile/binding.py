"""Which resource sets a kernel's time, from how busy each one was. A rule over shares; reads no tool."""

from collections.abc import Sequence
from dataclasses import dataclass

from warpsmith.records import Binding, Metric

# From this share of its ceiling on a resource is what a kernel waits for. Tensor cores saturate below their peak: what
# `mma.sync` can feed on Hopper is about six tenths of it.
BOUND = {Binding.TENSOR: 0.45}
USUALLY_BOUND = 0.60
FEW_WARPS = 0.30  # of those an SM can hold; fewer cannot hide the latency of memory
MOST_SHOWN = 3


@dataclass(frozen=True)
class Use:
    """How busy one resource was, and the metrics that say so."""

    binding: Binding
    share: float
    metrics: tuple[Metric, ...]

    @property
    def weight(self) -> float:
        """Above 1 it binds."""
        return self.share / BOUND.get(self.binding, USUALLY_BOUND)


@dataclass(frozen=True)
class WaitingFacts:
    """What is known of a kernel's waiting: its time, what a launch costs, its warps, why they stall."""

    time_us: float
    launch_us: float
    occupancy: float | None = None
    limiter: str = ""
    stalls: tuple[Metric, ...] = ()


@dataclass(frozen=True)
class BindingResource:
    """The binding resource with the metrics that show it."""

    binding: Binding
    shown_by: tuple[Metric, ...]


def decide(uses: Sequence[Use], waiting: WaitingFacts) -> BindingResource:
    """A launch that is over before it paid off; a busy resource; too few warps; else waiting that nothing hides."""
    busiest = max(uses, key=lambda use: use.weight, default=None)
    if waiting.time_us <= waiting.launch_us:
        times = (Metric(name="kernel", value=waiting.time_us, unit="µs"),)
        return BindingResource(Binding.LATENCY, (*times, Metric(name="a launch", value=waiting.launch_us, unit="µs")))
    if busiest is not None and busiest.weight >= 1:
        return BindingResource(busiest.binding, (*busiest.metrics, *waiting.stalls)[:MOST_SHOWN])
    most = () if busiest is None else busiest.metrics[:1]
    if waiting.occupancy is not None and waiting.occupancy < FEW_WARPS:
        return BindingResource(Binding.OCCUPANCY, (_warps(waiting), *waiting.stalls[:1], *most)[:MOST_SHOWN])
    return BindingResource(Binding.LATENCY, (*waiting.stalls[:2], *most)[:MOST_SHOWN])


def percent(name: str, share: float) -> Metric:
    """A share as a metric."""
    return Metric(name=name, value=100 * share, unit="%")


def _warps(waiting: WaitingFacts) -> Metric:
    limiter = f", limited by {waiting.limiter}" if waiting.limiter else ""
    return percent(f"occupancy{limiter}", waiting.occupancy or 0.0)

"""The resource that binds a kernel."""

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
    """The share of its ceiling that a resource reached."""

    binding: Binding
    share: float
    metrics: tuple[Metric, ...]

    @property
    def weight(self) -> float:
        """The share over the resource's limit; 1 binds."""
        return self.share / BOUND.get(self.binding, USUALLY_BOUND)


@dataclass(frozen=True)
class WaitingFacts:
    """Facts about the waiting of a kernel."""

    time_us: float
    launch_us: float
    occupancy: float | None = None
    limiter: str = ""
    stalls: tuple[Metric, ...] = ()


@dataclass(frozen=True)
class BindingResource:
    """The binding resource with its metrics."""

    binding: Binding
    shown_by: tuple[Metric, ...]


def find_binding(uses: Sequence[Use], waiting: WaitingFacts) -> BindingResource:
    """Return the resource that binds a kernel."""
    # In this order: latency, if the kernel is shorter than a launch, since nothing else matters then; the
    # busiest resource at its limit; occupancy, if few warps are resident; else latency.
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
    """Return a share as a metric in percent."""
    return Metric(name=name, value=100 * share, unit="%")


def _warps(waiting: WaitingFacts) -> Metric:
    """Return the occupancy with its limit as a metric."""
    limiter = f", limited by {waiting.limiter}" if waiting.limiter else ""
    return percent(f"occupancy{limiter}", waiting.occupancy or 0.0)

"""Turn hardware counters of ncu into a profile of each kernel."""

from collections.abc import Iterable, Sequence
from math import fsum

from warpsmith.base import median
from warpsmith.evaluation.profile import metrics as m
from warpsmith.evaluation.profile.binding import Use, WaitingFacts, find_binding, percent
from warpsmith.evaluation.profile.ncu_table import Launch, Sampled
from warpsmith.evaluation.profile.words import plain_name
from warpsmith.machines.hardware import arithmetic_us, memory_us
from warpsmith.records import Binding, Ceilings, HotLine, KernelProfile, MeasuredTime, Metric, Place, RooflinePlace

SECTOR_BYTES = 32
LEAST_LAUNCH_US = 3.0  # a kernel shorter than this is over before the next can be started
SHOWN_STALLS, SHOWN_LINES = 3, 3
LEAST_SHARE = 0.05  # of a line or a stall that is worth telling


def kernels(launches: Sequence[Launch], lines: Sequence[Sampled], ceilings: Ceilings) -> tuple[KernelProfile, ...]:
    """Return a profile for each kernel and launch shape."""
    groups: dict[tuple[object, ...], list[Launch]] = {}
    for launch in launches:
        groups.setdefault((launch.kernel, launch.grid, launch.block), []).append(launch)
    return tuple(_kernel(group, lines, ceilings) for group in groups.values())


def _kernel(group: Sequence[Launch], lines: Sequence[Sampled], ceilings: Ceilings) -> KernelProfile:
    """Return the profile of equal launches."""
    one = _Means(group)
    first, shared = group[0], [one.get(name) for name in m.SHARED_BYTES]
    read, written, sectors = (one.get(name) for name in (m.DRAM_READ, m.DRAM_WRITTEN, m.L2_SECTORS))
    registers = one.get(m.REGISTERS)
    return KernelProfile(
        name=plain_name(first.kernel),
        launches=len(group),
        grid=first.grid,
        block=first.block,
        time=_time(group),
        dram_read_bytes=read,
        dram_written_bytes=written,
        l2_bytes=sectors * SECTOR_BYTES if sectors is not None else None,
        sectors_per_request=one.ratio(m.SECTORS, m.REQUESTS),
        bank_conflicts=one.get(m.BANK_CONFLICTS),
        flops=_flops(one),
        issue_active=one.share(m.ISSUE),
        tensor_active=one.share(m.TENSOR),
        occupancy=one.share(m.OCCUPANCY),
        occupancy_limit=one.share(m.OCCUPANCY_LIMIT),
        limiter=limiter(one),
        stalls=stalls(one),
        registers=round(registers) if registers is not None else None,
        shared_bytes=round(fsum(part or 0.0 for part in shared)) if any(s is not None for s in shared) else None,
        place=place(one, ceilings),
        lines=hot_lines(lines, first.kernel),
    )


class _Means:
    """Mean metrics over several launches of one kernel."""

    def __init__(self, group: Sequence[Launch]) -> None:
        self._group = group

    def get(self, name: str) -> float | None:
        """Return a metric's mean, or None if absent."""
        found = [launch.values[name] for launch in self._group if name in launch.values]
        return fsum(found) / len(found) if found else None

    def share(self, name: str) -> float | None:
        """Return a percentage as a share of at most 1, or None."""
        # For SMs that were active for a few cycles only, ncu prints more than 100 %.
        value = self.get(name)
        return min(1.0, value / 100) if value is not None else None

    def total(self, parts: Iterable[tuple[str, float]]) -> float | None:
        """Return a weighted sum of metrics, or None if all are absent."""
        found = [weight * value for name, weight in parts if (value := self.get(name)) is not None]
        return fsum(found) if found else None

    def ratio(self, above: Sequence[str], below: Sequence[str]) -> float | None:
        """Return the ratio of two sums, or None if absent."""
        top, bottom = (self.total((name, 1.0) for name in names) for names in (above, below))
        return top / bottom if top is not None and bottom else None


def place(one: _Means, ceilings: Ceilings) -> RooflinePlace | None:
    """Return the kernel's roofline place, or None without a time."""
    time_ns = one.get(m.TIME)
    if not time_ns:
        return None
    time_us = time_ns / 1e3
    launch_us = max(LEAST_LAUNCH_US, ceilings.launch_us or 0.0)
    waiting = WaitingFacts(time_us, launch_us, one.share(m.OCCUPANCY), limiter(one), stalls(one))
    bound = find_binding(list(uses(one, time_us, ceilings)), waiting)
    read, written = one.get(m.DRAM_READ) or 0.0, one.get(m.DRAM_WRITTEN) or 0.0
    flops = _flops(one)
    floor = max(memory_us(ceilings, read, written), _arithmetic_us(one, ceilings))
    return RooflinePlace(
        fraction=floor / time_us,
        floor_us=floor,
        intensity=flops / (read + written) if flops is not None and read + written else None,
        flops_per_s=flops / time_us * 1e6 if flops is not None else None,
        binding=bound.binding,
        shown_by=bound.shown_by,
    )


def uses(one: _Means, time_us: float, ceilings: Ceilings) -> Iterable[Use]:
    """Yield the use of each resource with counters."""
    read, written = one.get(m.DRAM_READ), one.get(m.DRAM_WRITTEN)
    if read is not None and written is not None:
        share = memory_us(ceilings, read, written) / time_us
        rate = Metric(name="DRAM traffic", value=(read + written) / time_us / 1e3, unit="GB/s")
        of = "of the measured ceiling" if ceilings.measured else "of the datasheet's ceiling"
        yield Use(Binding.DRAM, share, (rate, percent(of, share)))
    yield from _cache_uses(one, time_us, ceilings)
    issue = one.share(m.ISSUE)
    if issue is not None:
        pipes = {name: one.share(metric) or 0.0 for name, metric in m.PIPES.items()}
        busiest = max(pipes, key=pipes.__getitem__)
        shown = (percent("issue slots busy", issue), percent(busiest, pipes[busiest]))
        yield Use(Binding.ISSUE, max(issue, pipes[busiest]), shown)
    tensor = one.share(m.TENSOR)
    if tensor is not None:
        yield Use(Binding.TENSOR, tensor, (percent("tensor pipe busy", tensor),))


def _cache_uses(one: _Means, time_us: float, ceilings: Ceilings) -> Iterable[Use]:
    """Yield the use of L2, L1 and shared memory."""
    # L2 traffic is counted at the L1: `lts__t_bytes` also counts transfers between the two halves of the
    # L2 (design/profile.md). Shared memory and global loads use the same path, so the larger part of its
    # wavefronts names the resource.
    sectors = one.get(m.L2_SECTORS)
    busy = max((one.share(name) or 0.0 for name in m.L2_BUSY), default=0.0)
    if sectors is not None:
        rate = sectors * SECTOR_BYTES / time_us * 1e6
        share = max(busy, rate / ceilings.l2_bytes_per_s) if ceilings.l2_bytes_per_s else busy
        traffic = Metric(name="L2 traffic", value=rate / 1e9, unit="GB/s")
        yield Use(Binding.L2, share, (traffic, percent("L2 busy", share)))
    path = one.share(m.L1_BUSY)
    path = one.share(m.L1_BUSY_ELSE) if path is None else path
    if path is None:
        return
    all_of_them, shared = one.get(m.WAVEFRONTS), one.get(m.SHARED_WAVEFRONTS) or 0.0
    if all_of_them and shared / all_of_them > 0.5:
        conflicts = Metric(name="bank conflicts a launch", value=one.get(m.BANK_CONFLICTS) or 0.0)
        yield Use(Binding.SHARED, path, (percent("shared memory path busy", path), conflicts))
    else:
        spread = Metric(name="sectors a request", value=one.ratio(m.SECTORS, m.REQUESTS) or 0.0)
        yield Use(Binding.L1, path, (percent("L1 path busy", path), spread))


def stalls(one: _Means) -> tuple[Metric, ...]:
    """Return the three largest stall reasons in percent."""
    found = {text: one.get(m.STALL.format(name)) or 0.0 for name, text in m.STALLS.items()}
    total = fsum(found.values())
    largest = sorted(found, key=found.__getitem__, reverse=True)[:SHOWN_STALLS]
    return tuple(percent(name, found[name] / total) for name in largest if total and found[name] / total >= LEAST_SHARE)


def limiter(one: _Means) -> str:
    """Return the resource that limits blocks per SM."""
    # Below one wave the grid itself is the limit: more registers or shared memory would change nothing.
    waves = one.get(m.WAVES)
    if waves is not None and waves < 1:
        return "the grid"
    blocks = {name: value for name, metric in m.LIMITS.items() if (value := one.get(metric)) is not None}
    return min(blocks, key=blocks.__getitem__) if blocks else ""


def hot_lines(lines: Sequence[Sampled], kernel: str) -> tuple[HotLine, ...]:
    """Return the three source lines with most stall samples."""
    own = [line for line in lines if line.kernel == kernel]
    total = fsum(line.samples for line in own)
    largest = sorted(own, key=lambda line: line.samples, reverse=True)[:SHOWN_LINES]
    return tuple(
        HotLine(
            place=Place(file=line.file, line=line.line), share=line.samples / total, of="stall samples", code=line.code
        )
        for line in largest
        if line.samples / total >= LEAST_SHARE
    )


def _flops(one: _Means) -> float | None:
    """Return the operations of a launch, or None."""
    parts = [(name, float(weight)) for name, weight in m.FLOPS.items()]
    return one.total([*parts, *((name, 1.0) for name in m.TENSOR_FLOPS)])


def _arithmetic_us(one: _Means, ceilings: Ceilings) -> float:
    """Return the least time of the arithmetic in microseconds."""
    # Pipes of different types work at the same time, so the slowest one bounds.
    scalar = one.total((name, float(weight)) for name, weight in m.FLOPS.items()) or 0.0
    found = [arithmetic_us(ceilings, scalar, "float32")]
    found += [arithmetic_us(ceilings, one.get(name) or 0.0, dtype) for name, dtype in m.TENSOR_FLOPS.items()]
    return max(value or 0.0 for value in found)


def _time(group: Sequence[Launch]) -> MeasuredTime | None:
    """Return the measured time, or None without one."""
    times = [launch.values[m.TIME] / 1e3 for launch in group if m.TIME in launch.values]
    if not times:
        return None
    return MeasuredTime(us=median(times), low_us=min(times), high_us=max(times), samples=len(times))

"""Rules on times: pure functions of numbers.

A rule returns a ratio, a comparison, or a failure that quarantines a time. No function here reads a clock.
docs/timing.md has a table of the constants.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, inf, sqrt
from statistics import NormalDist

from warpsmith.base import CONFIDENCE, bootstrap_ratio, median, quantile
from warpsmith.records import FASTER_ABOVE, Ceilings, Failure, MeasuredTime, Ratio, Reason, SpeedComparison

# Two confidence levels, for two questions. CONFIDENCE (base/stats.py, 0.999) is of a claim: one wrong "faster" in 1000
# comparisons. STOP_CONFIDENCE decides only when enough calls were made: a lower level costs a few calls and no claim.
STOP_CONFIDENCE = 0.99
APART_US = 1.0  # least difference of a claim: one kernel of 4 µs differed by 0.67 µs between two processes
SLACK_SHARE, SLACK_FLOOR_US = 0.05, 25.0  # of two clocks of one call: a busy host delays, and nothing else does
LEAST_QUEUED, LEAST_OF_KIND = 5, 3  # undisturbed queued calls, in all and of each kind of input
CONFIRMED_SHARE, LEAST_CONFIRMED = 0.25, 3  # of idle calls that the evaluator's clock must confirm
# An honest kernel may be ten times faster than torch, so a high ratio is repeated and not refused.
GOOD_LIMIT = 10.0  # times the best baseline; above it a second process must repeat the time
# The ceiling is a measurement as well. Without slack an honest copy kernel at full bandwidth could be
# refused.
FLOOR_SLACK = 1.05  # the measured read bandwidth may be exceeded by 5 %
FLUSH_SHARE = 0.20  # a flush further from its usual time means that another program used the GPU
MOST_DISCARDED = 0.5


@dataclass(frozen=True)
class StopRule:
    """The rule that ends a window of calls."""

    # The window ends when the interval of the median is narrow, or at the most calls or seconds. The
    # interval is the distribution-free one between order statistics, n/2 ± z·sqrt(n)/2, with z the normal
    # quantile of its level: times are not normally distributed, since a disturbance only adds.

    width: float = 0.01  # of the median
    least: int = 11
    most: int = 61
    seconds: float = 4.0
    level: float = STOP_CONFIDENCE

    def is_met(self, samples: Sequence[float], elapsed_s: float) -> bool:
        """Return whether these samples in microseconds are enough."""
        if len(samples) < self.least:
            return False
        return len(samples) >= self.most or elapsed_s >= self.seconds or self.interval_width(samples) <= self.width

    def interval_width(self, samples: Sequence[float]) -> float:
        """Return the median interval's width, relative to the median."""
        half = NormalDist().inv_cdf((1 + self.level) / 2) / (2 * sqrt(len(samples)))
        low, high = quantile(samples, max(0.0, 0.5 - half)), quantile(samples, min(1.0, 0.5 + half))
        return (high - low) / median(samples)


@dataclass(frozen=True)
class Floor:
    """The shortest believable time on a GPU."""

    ceilings: Ceilings
    empty_kernel_us: float
    l2_bytes: int

    def us(self, read_bytes: float, written_bytes: float) -> float:
        """Return the floor of a call in microseconds."""
        # floor is the larger of (read + spilled) / (1.05 * read bandwidth) and the empty kernel's time.
        # Reads are cold after a flush. The last written bytes may still be in the L2 when the call ends,
        # so only written bytes beyond its size must have reached DRAM.
        spilled = max(0.0, written_bytes - self.l2_bytes)
        memory_s = (read_bytes + spilled) / (FLOOR_SLACK * self.ceilings.read_bytes_per_s)
        return max(memory_s * 1e6, self.empty_kernel_us)


def summarize_times(samples: Sequence[float]) -> MeasuredTime:
    """Return median, 5 % and 95 % quantiles in microseconds."""
    # Order statistics and no mean: one delayed call would move a mean.
    return MeasuredTime(
        us=median(samples), low_us=quantile(samples, 0.05), high_us=quantile(samples, 0.95), samples=len(samples)
    )


def take_equally(windows: Sequence[Sequence[float]]) -> list[float]:
    """Return as many samples of each window as the shortest has."""
    # Every process then counts alike. The samples are taken at equal distances, so that a drift during a
    # long window counts as much as in all of its samples.
    fewest = min(map(len, windows))
    return [window[place * len(window) // fewest] for window in windows for place in range(fewest)]


def find_slowest_kind(kinds: Mapping[str, Sequence[float]]) -> str:
    """Return the kind of input with the largest median."""
    # One median per kind: in the median of a mixture a kernel that is careful for one kind in two keeps
    # its fast time. No difference is too small to count, since a kernel could gain up to any limit.
    return max(kinds, key=lambda kind: median(kinds[kind]))


def speed_ratio(baseline: Sequence[float], candidate: Sequence[float], level: float = CONFIDENCE) -> Ratio:
    """Return baseline over candidate time with its interval."""
    # A bootstrap, since the ratio of two medians has no simple distribution. Both sides are resampled:
    # the baseline's times vary as well.
    low, high = bootstrap_ratio(baseline, candidate, level)
    return Ratio(value=median(baseline) / median(candidate), low=low, high=high, level=level)


def compare_speeds(found: Ratio, windows: Sequence[float] = (), apart_us: float = inf) -> SpeedComparison:
    """Return faster or slower if the whole interval agrees, else inconclusive."""
    # Faster also needs each ratio of `windows` above 1.01, those before the baseline and those after: a
    # drift of the GPU would help in one half only. Both need times at least 1 µs apart, which is more
    # than two processes of one kernel differ by.
    compared = SpeedComparison.of(found.low, found.high)
    agrees = compared is not SpeedComparison.FASTER or all(ratio > FASTER_ABOVE for ratio in windows)
    return compared if agrees and apart_us >= APART_US else SpeedComparison.INCONCLUSIVE


def slack_us(time_us: float) -> float:
    """Return the allowed difference of two clocks in microseconds."""
    return max(SLACK_SHARE * time_us, SLACK_FLOOR_US)


def check_hidden_work(idle_us: float, queued_us: float, gap_us: float) -> Failure | None:
    """Return a failure if queued calls are too short, else None."""
    # Idle calls wait for an idle device and include the launch, queued ones hide it. `gap_us` is that
    # difference for an empty kernel; a larger one means that work ran before or after the events of the
    # queued call.
    if queued_us >= idle_us - gap_us - slack_us(idle_us):
        return None
    return Failure(
        Reason.HIDDEN_WORK,
        f"queued behind a gate the call takes {queued_us:.1f} µs, from an idle device {idle_us:.1f} µs; "
        f"its launches explain {gap_us:.1f} µs of the difference",
    )


def check_clocks(confirmed: int, calls: int, beside_us: float, empty_beside_us: float) -> Failure | None:
    """Return a failure if too few calls are confirmed, else None."""
    # `beside_us` is the evaluator's wait beyond the events, `empty_beside_us` the same for an empty
    # kernel. A process whose events are changed must still answer after its work: the evaluator's clock
    # then runs longer than the events say.
    if confirmed >= confirmed_calls_needed(calls):
        return None
    return Failure(
        Reason.CLOCKS_DISAGREE,
        f"the judge waited {beside_us:.1f} µs beside the worker's events, and {empty_beside_us:.1f} µs for nothing; "
        f"its clock confirms {confirmed} of {calls} calls, and {confirmed_calls_needed(calls)} are needed",
    )


def confirmed_calls_needed(calls: int) -> int:
    """Return the number of idle calls to confirm."""
    # A quarter: a noisy host delays many answers, but never all of them.
    return max(LEAST_CONFIRMED, ceil(CONFIRMED_SHARE * calls))


def check_floor(time_us: float, floor_us: float) -> Failure | None:
    """Return a failure for a time below the floor, else None."""
    if time_us >= floor_us:
        return None
    return Failure(Reason.BELOW_FLOOR, f"{time_us:.2f} µs is below {floor_us:.2f} µs, what this GPU's memory allows")


def check_too_good(found: Ratio, repeated: bool) -> Failure | None:
    """Return a failure for an unrepeated speedup above 10, else None."""
    if found.value <= GOOD_LIMIT or repeated:
        return None
    return Failure(
        Reason.TOO_GOOD,
        f"{found.value:.1f} times the best baseline; above {GOOD_LIMIT:g} a second evaluation must agree",
    )


def find_undisturbed(flushes_us: Sequence[float]) -> list[bool]:
    """Return for each call whether its flush was usual."""
    # The flush runs just before the call and moves the same bytes each time. If it took 20 % longer or
    # shorter, another program used the GPU.
    usual = median(flushes_us) if flushes_us else 0.0
    return [abs(flush - usual) <= FLUSH_SHARE * usual for flush in flushes_us]


def check_throttling(slowed: Sequence[str]) -> Failure | None:
    """Return a failure if heat or power slowed the GPU, else None."""
    if not slowed:
        return None
    return Failure(Reason.DISTURBED, f"the GPU was held back by {', '.join(slowed)}; try again when it is cool")


def check_sample_counts(kinds: Mapping[str, int]) -> Failure | None:
    """Return a failure if too few calls were undisturbed, else None."""
    # `kinds` has the undisturbed queued calls by kind of input. A median of few calls says little, and a
    # candidate that disturbs calls could choose which of them count.
    queued, rarest = sum(kinds.values()), min(kinds, key=lambda kind: kinds[kind])
    if queued < LEAST_QUEUED:
        return Failure(Reason.DISTURBED, f"only {queued} queued calls were undisturbed; {LEAST_QUEUED} are needed")
    if kinds[rarest] < LEAST_OF_KIND:
        detail = f"only {kinds[rarest]} queued calls of {rarest} inputs were undisturbed; {LEAST_OF_KIND} are needed"
        return Failure(Reason.DISTURBED, detail)
    return None


def check_disturbances(undisturbed: Sequence[bool]) -> Failure | None:
    """Return a failure if over half of the calls were disturbed, else None."""
    share = 1 - sum(undisturbed) / len(undisturbed)
    if share <= MOST_DISCARDED:
        return None
    return Failure(
        Reason.DISTURBED, f"{share:.0%} of {len(undisturbed)} calls were disturbed; at most {MOST_DISCARDED:.0%} may be"
    )

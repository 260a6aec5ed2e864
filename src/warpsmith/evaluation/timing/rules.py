"""What may be said of times: pure functions from samples to a ratio, a claim, or a reason to believe nothing.

Every rule takes numbers and gives a value; none reads a clock.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, inf

from warpsmith.base import CONFIDENCE, bootstrap_ratio, median, quantile
from warpsmith.records import FASTER_ABOVE, Ceilings, Failure, MeasuredTime, Ratio, Reason, SpeedComparison

APART_US = 1.0  # and the times must differ by this: one kernel of 4 µs in two processes was seen to differ by 0.67 µs
SLACK_SHARE, SLACK_FLOOR_US = 0.05, 25.0  # how far times may differ where no host code of the candidate's runs
LEAST_QUEUED, LEAST_OF_KIND = 5, 3  # queued calls that say how long a call takes, and of each kind of input
CONFIRMED_SHARE, LEAST_CONFIRMED = 0.25, 3
GOOD_LIMIT = 10.0  # times the best baseline, past which a second evaluation must repeat it
FLOOR_SLACK = 1.05  # the measured read ceiling may be passed by this much
FLUSH_SHARE = 0.20  # how far the judge's own flush may stray before a call is called disturbed
MOST_DISCARDED = 0.5


def measured(samples: Sequence[float]) -> MeasuredTime:
    """The median of samples in microseconds, with the middle nine tenths of them."""
    return MeasuredTime(
        us=median(samples), low_us=quantile(samples, 0.05), high_us=quantile(samples, 0.95), samples=len(samples)
    )


def balanced(windows: Sequence[Sequence[float]]) -> list[float]:
    """The samples of several windows, as many of each as the shortest has.

    From all over a window: what drifts during a long window counts as much as in all of it.
    """
    fewest = min(map(len, windows))
    return [window[place * len(window) // fewest] for window in windows for place in range(fewest)]


def slowest_kind(kinds: Mapping[str, Sequence[float]]) -> str:
    """Return the kind of input with the largest median.

    One median per kind: in the median of a mixture a kernel that is careful for one kind in two keeps its fast time.
    No difference is too small, since a smaller one than any limit would be free.
    """
    return max(kinds, key=lambda kind: median(kinds[kind]))


def ratio(baseline: Sequence[float], candidate: Sequence[float], level: float = CONFIDENCE) -> Ratio:
    """Baseline over candidate with its bootstrap interval."""
    low, high = bootstrap_ratio(baseline, candidate, level)
    return Ratio(value=median(baseline) / median(candidate), low=low, high=high, level=level)


def claim(found: Ratio, windows: Sequence[float] = (), apart_us: float = inf) -> SpeedComparison:
    """Faster or slower only where the whole interval says so, and the ratio of each side by itself; else inconclusive.

    `apart_us` is how far apart the times are.
    """
    said = SpeedComparison.of(found.low, found.high)
    alone = said is not SpeedComparison.FASTER or all(one > FASTER_ABOVE for one in windows)
    return said if alone and apart_us >= APART_US else SpeedComparison.INCONCLUSIVE


def hidden_work(idle_us: float, queued_us: float, gap_us: float) -> Failure | None:
    """A queued time may be shorter than the idle one by as much as a call that does nothing is, and no more."""
    if queued_us >= idle_us - gap_us - slack_us(idle_us):
        return None
    return Failure(
        Reason.HIDDEN_WORK,
        f"queued behind a gate the call takes {queued_us:.1f} µs, from an idle device {idle_us:.1f} µs; "
        f"its launches explain {gap_us:.1f} µs of the difference",
    )


def clocks_disagree(confirmed: int, calls: int, beside_us: float, null_beside_us: float) -> Failure | None:
    """Of the calls from an idle device, enough must be such that the judge waited no longer than the claim explains."""
    if confirmed >= least_confirmed(calls):
        return None
    return Failure(
        Reason.CLOCKS_DISAGREE,
        f"the judge waited {beside_us:.1f} µs beside the worker's events, and {null_beside_us:.1f} µs for nothing; "
        f"its clock confirms {confirmed} of {calls} calls, and {least_confirmed(calls)} are needed",
    )


def least_confirmed(calls: int) -> int:
    """How many of so many calls must be confirmed: a noisy machine delays many, but never all of them."""
    return max(LEAST_CONFIRMED, ceil(CONFIRMED_SHARE * calls))


def slack_us(time_us: float) -> float:
    """How far two clocks of one call, or two ways to make it, may differ: a busy host delays, and nothing else does."""
    return max(SLACK_SHARE * time_us, SLACK_FLOOR_US)


@dataclass(frozen=True)
class Floor:
    """Below which no time is believed: what this GPU was measured to do, its null kernel's time, and its L2."""

    ceilings: Ceilings
    null_us: float
    l2_bytes: int

    def us(self, read_bytes: float, written_bytes: float) -> float:
        """Cold reads, and writes beyond what the L2 may still hold, with slack; never below the null kernel's time."""
        spilled = max(0.0, written_bytes - self.l2_bytes)
        memory_s = (read_bytes + spilled) / (FLOOR_SLACK * self.ceilings.read_bytes_per_s)
        return max(memory_s * 1e6, self.null_us)


def below_floor(time_us: float, floor: float) -> Failure | None:
    """Faster than the memory allows is not fast, it is wrong somewhere."""
    if time_us >= floor:
        return None
    return Failure(Reason.BELOW_FLOOR, f"{time_us:.2f} µs is below {floor:.2f} µs, what this GPU's memory allows")


def too_good(found: Ratio, repeated: bool) -> Failure | None:
    """Past ten times the best baseline a number waits until a second evaluation repeats it."""
    if found.value <= GOOD_LIMIT or repeated:
        return None
    return Failure(
        Reason.TOO_GOOD,
        f"{found.value:.1f} times the best baseline; above {GOOD_LIMIT:g} a second evaluation must agree",
    )


def undisturbed(flushes_us: Sequence[float]) -> list[bool]:
    """For each call, whether the judge's own flush took its usual time."""
    usual = median(flushes_us) if flushes_us else 0.0
    return [abs(flush - usual) <= FLUSH_SHARE * usual for flush in flushes_us]


def held_back(slowed: Sequence[str]) -> Failure | None:
    """A GPU that is slowed down by heat or power tells nothing."""
    if not slowed:
        return None
    return Failure(Reason.DISTURBED, f"the GPU was held back by {', '.join(slowed)}; try again when it is cool")


def too_few(kinds: Mapping[str, int]) -> Failure | None:
    """Return a doubt if a median is of very few calls: it says little, and whoever disturbs calls chooses the rest.

    `kinds` has the number of undisturbed queued calls by the kind of their inputs.
    """
    queued, rarest = sum(kinds.values()), min(kinds, key=lambda kind: kinds[kind])
    if queued < LEAST_QUEUED:
        return Failure(Reason.DISTURBED, f"only {queued} queued calls were undisturbed; {LEAST_QUEUED} are needed")
    if kinds[rarest] < LEAST_OF_KIND:
        detail = f"only {kinds[rarest]} queued calls of {rarest} inputs were undisturbed; {LEAST_OF_KIND} are needed"
        return Failure(Reason.DISTURBED, detail)
    return None


def disturbed(kept: Sequence[bool]) -> Failure | None:
    """When most calls were disturbed nothing can be said."""
    share = 1 - sum(kept) / len(kept)
    if share <= MOST_DISCARDED:
        return None
    return Failure(
        Reason.DISTURBED, f"{share:.0%} of {len(kept)} calls were disturbed; at most {MOST_DISCARDED:.0%} may be"
    )

"""What the published kernels were to reach on a GPU, and what their records say.

Run: python benchmarks/aims.py [docs/results/h200]
Speedups are against the best of torch's modes that were measured, device time, cold L2, geometric means over the timing
cases. Reads records; evaluates nothing.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from warpsmith.app.published import records_below
from warpsmith.base import geomean
from warpsmith.records import CaseTiming, Direction, Record, score
from warpsmith.report.winner import gap_of

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "h200"
STREAMS = {  # their time is memory's; that of the other tasks a product, a convolution or attention
    "cross_entropy",
    "group_norm_silu",
    "layernorm",
    "llama_rmsnorm",
    "max_pool",
    "rope",
    "softmax",
    "swiglu",
}
LEAST, LEAST_PRODUCT = 0.95, 0.90
GAIN = {Direction.FORWARD: 1.4, Direction.BACKWARD: 1.3}
OF_ROOFLINE = 0.95  # of what the roofline allows over torch, where that is less
LARGE_US, BANDWIDTH = 15.0, 0.85  # the roofline's time of 64 MB, which the L2 does not hold; the share of it to reach
GAP = 0.9


@dataclass(frozen=True)
class Line:
    """One aim: what it asks for, what was measured, where it is missed."""

    aim: str
    measured: str
    missed: Sequence[str] = ()

    def __str__(self) -> str:
        """As a person reads it."""
        missed = f"; missed by {', '.join(self.missed)}" if self.missed else "; met"
        return f"{self.aim}: {self.measured}{missed}"


def lines(records: Sequence[Record]) -> Iterator[Line]:
    """Every aim."""
    streams = [one for one in records if one.candidate.task in STREAMS]
    others = [one for one in records if one.candidate.task not in STREAMS]
    yield _least("every task whose time is memory's", streams, LEAST)
    yield _least("every other task", others, LEAST_PRODUCT)
    for direction in Direction:
        yield _gain([one for one in streams if one.candidate.direction is direction], direction)
    yield _bandwidth(streams)
    yield _generalization(records)


def _name(record: Record) -> str:
    return f"{record.candidate.task} {record.candidate.direction}"


def _speedup(record: Record) -> float:
    found = score(record)
    assert found is not None, f"{_name(record)} has no score"
    return found.value


def _cases(record: Record) -> Sequence[CaseTiming]:
    return record.timing.seen if record.timing else ()


def _least(what: str, records: Sequence[Record], least: float) -> Line:
    lowest = min(records, key=_speedup)
    missed = [f"{_name(one)} {_speedup(one):.3f}" for one in records if _speedup(one) < least]
    return Line(f"{what} at {least} or more", f"lowest {_name(lowest)} {_speedup(lowest):.3f}", missed)


def _gain(records: Sequence[Record], direction: Direction) -> Line:
    found = geomean(map(_speedup, records))
    allowed = geomean(geomean(map(_allowed, _cases(one))) for one in records)
    aim = min(GAIN[direction], OF_ROOFLINE * allowed)
    large = [case for _, case in _large(records)]
    most, reached = geomean(map(_allowed, large)), geomean(map(_ratio, large))
    measured = (
        f"{found:.3f} over {len(records)} tasks, of {allowed:.2f} that the roofline allows; "
        f"{reached:.3f} of {most:.3f} in the {len(large)} cases that take it {LARGE_US:g} µs or more"
    )
    missed = [f"{1 - found / aim:.0%}"] if found < aim else []
    return Line(f"{direction} mean of those whose time is memory's at {aim:.2f}", measured, missed)


def _large(records: Sequence[Record]) -> list[tuple[Record, CaseTiming]]:
    return [(one, case) for one in records for case in _cases(one) if case.roofline_us >= LARGE_US]


def _ratio(case: CaseTiming) -> float:
    return case.speedup.value if case.speedup else 1.0


def _allowed(case: CaseTiming) -> float:
    """The speedup over torch of a kernel at the roofline, where a null kernel's time is the least that there is."""
    return _ratio(case) * case.time.us / max(case.roofline_us, case.floor_us or 0.0)


def _bandwidth(records: Sequence[Record]) -> Line:
    large = _large(records)
    missed = [(one, case) for one, case in large if (case.roofline or 0.0) < BANDWIDTH]
    said = [f"{_name(one)} {case.case.name} {case.roofline:.0%}" for one, case in missed]
    measured = f"{len(large) - len(missed)} of {len(large)} cases"
    return Line(
        f"{BANDWIDTH:.0%} of the measured bandwidth in cases that take it {LARGE_US:g} µs or more", measured, said
    )


def _generalization(records: Sequence[Record]) -> Line:
    gaps = [(one, ratio) for one in records if (ratio := gap_of(one).ratio)]
    missed = [f"{_name(one)} {ratio:.2f}" for one, ratio in gaps if ratio < GAP]
    mean = geomean(ratio for _, ratio in gaps)
    return Line(f"held-out over timing {GAP} or more", f"mean {mean:.2f} of {len(gaps)} kernels", missed)


if __name__ == "__main__":
    for line in lines(records_below(Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS)):
        print(line)

"""Scores: one number that ranks kernels of one task, computed from a record.

A measured score is a speedup over torch's best mode, a modelled score the inverse of a time. They are different types,
and only scores of the same `basis` are compared.
"""

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

from warpsmith.base import digest_json, geomean
from warpsmith.records.facts import CaseTiming, Ratio
from warpsmith.records.model import Model
from warpsmith.records.record import Record
from warpsmith.records.times import MeasuredTime, ModelledTime
from warpsmith.records.verdict import Verdict


class MeasuredScore(Model):
    """Geometric mean of the speedups over the best baselines, with bounds.

    The interval of each case holds with its level, so `low` to `high` holds with at least 1 - cases * (1 - level).
    """

    kind: Literal["measured"] = "measured"
    value: float
    low: float
    high: float
    cases: int
    basis: str

    @property
    def words(self) -> str:
        """The speedup with its interval, as text."""
        return f"{self.value:.3f}× ({self.low:.3f}–{self.high:.3f}) torch's best"


class ModelledScore(Model):
    """Calls per second by the geometric mean of modelled times; ranks kernels only."""

    kind: Literal["modelled"] = "modelled"
    value: float
    cases: int
    basis: str

    @property
    def us(self) -> float:
        """Geometric mean of the modelled times in µs."""
        return 1e6 / self.value

    @property
    def words(self) -> str:
        """The modelled time, as text."""
        return f"{self.us:.2f} µs modelled"


Score: TypeAlias = MeasuredScore | ModelledScore


def score(record: Record) -> Score | None:
    """Return the score of a record, or None unless it passed and was timed."""
    # `seen` leaves out held-out cases: their shapes differ between evaluations.
    # `concluded` and not `verdict`: a kernel that was never checked must not be ranked.
    if record.concluded is not Verdict.PASS or record.timing is None:
        return None
    return _measured_score(record, record.timing.seen) or _modelled_score(record, record.timing.seen)


def _measured_score(record: Record, cases: Sequence[CaseTiming]) -> MeasuredScore | None:
    """Return the score of measured speedups, or None if a case lacks one."""
    ratios = [case.speedup for case in cases if case.speedup and isinstance(case.time, MeasuredTime)]
    # A mean over fewer cases would rank a kernel by its good cases alone.
    if not cases or len(ratios) != len(cases) or not all(_is_usable(ratio) for ratio in ratios):
        return None
    # The geometric mean grows with each ratio: if every interval holds, it lies between the means of the bounds.
    return MeasuredScore(
        value=geomean(ratio.value for ratio in ratios),
        low=geomean(ratio.low for ratio in ratios),
        high=geomean(ratio.high for ratio in ratios),
        cases=len(cases),
        basis=_basis(record, "measured", record.environment.hardware, cases),
    )


def _modelled_score(record: Record, cases: Sequence[CaseTiming]) -> ModelledScore | None:
    """Return the score of modelled times, or None if a case lacks one."""
    times = [case.time for case in cases if isinstance(case.time, ModelledTime) and case.time.us > 0]
    if not cases or len(times) != len(cases):
        return None
    gpus = ",".join(sorted({time.gpu for time in times}))
    # The inverse of the geometric mean time, so that for both kinds of score more is better.
    value = geomean(1e6 / time.us for time in times)
    return ModelledScore(value=value, cases=len(cases), basis=_basis(record, "modelled", gpus, cases))


def _basis(record: Record, kind: str, hardware: str, cases: Iterable[CaseTiming]) -> str:
    """Return the hash that two comparable scores share."""
    # Scores compare only for the same task version, kind of time, GPU, cache, cases and, if restricted, baselines.
    candidate, asked = record.candidate, [record.options.cache, ",".join(record.options.baselines)]
    # Sorted, so that the order in which cases were timed does not change the hash.
    shapes = sorted([case.case.name, case.case.dtype, sorted(case.case.axes.items())] for case in cases)
    return digest_json([candidate.task, candidate.direction, record.task_version, kind, hardware, shapes, asked])


def _is_usable(ratio: Ratio) -> bool:
    """Whether a ratio and its interval are positive and finite."""
    return 0 < ratio.low <= ratio.high < float("inf") and ratio.value > 0

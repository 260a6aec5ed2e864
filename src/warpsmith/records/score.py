"""The score of a record: one number that ranks kernels of one task, a function of the record and of nothing else.

A measured score is a speedup over torch's best mode, a modelled one the inverse of a time; they are different types,
and `basis` says which scores may stand in one ranking.
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
    """The geometric mean over the timed cases of the speedup against the best baseline, and that of its bounds.

    Each case's interval holds with its own level, so `low` to `high` holds with 1 - cases * (1 - level) at least.
    """

    kind: Literal["measured"] = "measured"
    value: float
    low: float
    high: float
    cases: int
    basis: str

    @property
    def words(self) -> str:
        """A speedup with its interval."""
        return f"{self.value:.3f}× ({self.low:.3f}–{self.high:.3f}) torch's best"


class ModelledScore(Model):
    """Calls a second by the geometric mean of the modelled times. Ranks kernels; never a claim, and has no interval."""

    kind: Literal["modelled"] = "modelled"
    value: float
    cases: int
    basis: str

    @property
    def us(self) -> float:
        """The geometric mean of the modelled times."""
        return 1e6 / self.value

    @property
    def words(self) -> str:
        """A time that was modelled."""
        return f"{self.us:.2f} µs modelled"


Score: TypeAlias = MeasuredScore | ModelledScore


def score(record: Record) -> Score | None:
    """The score of a kernel that was checked, found right and timed; None for every other record."""
    if record.concluded is not Verdict.PASS or record.timing is None:
        return None
    return _measured(record, record.timing.seen) or _modelled(record, record.timing.seen)


def _measured(record: Record, cases: Sequence[CaseTiming]) -> MeasuredScore | None:
    ratios = [case.speedup for case in cases if case.speedup and isinstance(case.time, MeasuredTime)]
    if not cases or len(ratios) != len(cases) or not all(_usable(ratio) for ratio in ratios):
        return None
    return MeasuredScore(
        value=geomean(ratio.value for ratio in ratios),
        low=geomean(ratio.low for ratio in ratios),
        high=geomean(ratio.high for ratio in ratios),
        cases=len(cases),
        basis=_basis(record, "measured", record.environment.hardware, cases),
    )


def _modelled(record: Record, cases: Sequence[CaseTiming]) -> ModelledScore | None:
    times = [case.time for case in cases if isinstance(case.time, ModelledTime) and case.time.us > 0]
    if not cases or len(times) != len(cases):
        return None
    gpus = ",".join(sorted({time.gpu for time in times}))
    value = geomean(1e6 / time.us for time in times)
    return ModelledScore(value=value, cases=len(cases), basis=_basis(record, "modelled", gpus, cases))


def _basis(record: Record, kind: str, hardware: str, cases: Iterable[CaseTiming]) -> str:
    """What two scores must share to be compared: the task as it was, the kind of time, the GPU, its cache, the cases,
    and where not all of torch's modes were asked for those that were.
    """
    candidate, asked = record.candidate, [record.options.cache, ",".join(record.options.baselines)]
    shapes = sorted([case.case.name, case.case.dtype, sorted(case.case.axes.items())] for case in cases)
    return digest_json([candidate.task, candidate.direction, record.task_version, kind, hardware, shapes, asked])


def _usable(ratio: Ratio) -> bool:
    return 0 < ratio.low <= ratio.high < float("inf") and ratio.value > 0

"""The calibration of verifiers over a labelled corpus."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from warpsmith.evaluation.verify.aggregate import (
    REVIEWER,
    Signal,
    Weight,
    Weights,
    decide,
    stopping_odds,
    threshold,
    total,
    weight_of,
)
from warpsmith.evaluation.verify.pipeline import Verified, signals_of
from warpsmith.evaluation.verify.review import Review, ReviewerRole
from warpsmith.evaluation.verify.specimens import Label, LabelledKernel, SpecimenOrigin, kind_of
from warpsmith.languages.cuda import OPERATORS, Harm
from warpsmith.records import Model, StageResult, Verdict

HARMS = {operator.name: operator.harm for operator in OPERATORS}
OWN = {ReviewerRole.COMPILE: Harm.BUILD, ReviewerRole.MEMORY: Harm.MEMORY, ReviewerRole.NUMERICAL: Harm.VALUE}
MODEL_FREE = ("static", "compile", "virtual")


class Matrix(Model):
    """A verifier's confusion matrix, with its price."""

    verifier: str
    caught: int = 0  # wrong ones that it objected to
    missed: int = 0
    alarms: int = 0  # right ones that it objected to
    cleared: int = 0
    survivors: int = 0  # mutants that the GPU passed and it objected to
    seconds: float = 0.0  # spent on all that it saw
    usd: float = 0.0
    gpu_saved_s: float = 0.0  # GPU seconds of the wrong ones that it stopped

    @property
    def seen(self) -> int:
        """The right and wrong kernels that were checked."""
        return self.caught + self.missed + self.alarms + self.cleared

    @property
    def accuracy(self) -> float:
        """The share of correct answers; NaN without any."""
        return (self.caught + self.cleared) / self.seen if self.seen else math.nan


class Surprise(Model):
    """A kernel on which verifiers and GPU disagree."""

    origin: str
    label: Label
    truth: str = ""  # why the GPU failed it
    said: str = ""  # why a verifier stopped it


class Calibration(Model):
    """Measured matrices, and the weights that follow."""

    right: int
    wrong: int
    survivors: int
    verifiers: tuple[Matrix, ...]
    together: Matrix  # as the pipeline decides with the new weights
    without_model: Matrix
    operators: Mapping[str, Matrix]
    surprises: tuple[Surprise, ...] = ()
    weights: Weights


@dataclass(frozen=True)
class CalibrationSample:
    """One labelled kernel with the verifiers' results."""

    specimen: LabelledKernel
    verified: Verified

    @property
    def spoken(self) -> tuple[Signal, ...]:
        """The signals of the verifiers."""
        return signals_of(self.verified)

    @property
    def signals(self) -> Mapping[str, Signal]:
        """The signals by verifier name."""
        return {signal.verifier: signal for signal in self.spoken}


def calibrate(trials: Sequence[CalibrationSample], source: str, before: Weights | None = None) -> Calibration:
    """Return matrices, weights and threshold for a corpus."""
    # Attacks count for reviewers only: their number in a corpus is arbitrary and must not set the prior.
    # A verifier that did not run keeps its weight from `before`.
    names = dict.fromkeys(name for trial in trials for name in trial.signals)
    matrices = tuple(_matrix(name, trials) for name in names)
    trials = [trial for trial in trials if kind_of(trial.specimen.candidate) is not SpecimenOrigin.ATTACK]
    weights = weigh(trials, matrices, source, before.verifiers if before else {})
    count = {label: sum(trial.specimen.label is label for trial in trials) for label in Label}
    operators = dict.fromkeys(trial.specimen.operator for trial in trials if trial.specimen.operator in HARMS)
    return Calibration(
        right=count[Label.RIGHT],
        wrong=count[Label.WRONG],
        survivors=count[Label.SURVIVOR],
        verifiers=matrices,
        together=decided("together", trials, weights),
        without_model=decided("without a model", [_model_free(trial) for trial in trials], weights),
        operators={name: decided(name, _of(trials, name), weights) for name in sorted(operators)},
        surprises=tuple(_surprises(trials, weights)),
        weights=weights,
    )


def weigh(
    trials: Sequence[CalibrationSample], matrices: Sequence[Matrix], source: str, before: Mapping[str, Weight]
) -> Weights:
    """Return weights, and a threshold without false stops."""
    measured = {one.verifier: weight_of(one.caught, _wrong(one), one.alarms, _right(one)) for one in matrices}
    wrong = [trial for trial in trials if trial.specimen.label is Label.WRONG]
    right = [trial for trial in trials if trial.specimen.label is Label.RIGHT]
    prior = math.log((len(wrong) + 0.5) / (len(right) + 0.5))
    loose = Weights(prior=prior, verifiers={**before, **measured}, stop=0.0, source=source)
    for_stop = [stopping_odds(trial.spoken, loose) for trial in wrong]
    return loose.model_copy(update={"stop": threshold([_highest(trial, loose) for trial in right], for_stop)})


def _highest(trial: CalibrationSample, weights: Weights) -> float:
    """Return the odds nearest to a stop."""
    return max(total(trial.spoken, weights), stopping_odds(trial.spoken, weights))


def decided(name: str, trials: Sequence[CalibrationSample], weights: Weights) -> Matrix:
    """Return the matrix of the combined decision."""
    stops = [not decide(trial.spoken, weights).go for trial in trials]
    seconds = sum(trial.verified.seconds for trial in trials)
    usd = sum(trial.verified.usd for trial in trials)
    return _counted(name, trials, stops).model_copy(update={"seconds": seconds, "usd": usd})


def role_matrix(role: ReviewerRole, trials: Sequence[CalibrationSample]) -> Matrix:
    """Return a reviewer's matrix on its own faults."""
    # A reviewer for memory errors is not expected to find numerical ones.
    own = [trial for trial in trials if _asked(role, trial.specimen) and _review(trial, role)]
    return _counted(f"{REVIEWER}{role}", own, [_objects(trial, role) for trial in own])


def _asked(role: ReviewerRole, specimen: LabelledKernel) -> bool:
    """Return whether a kernel belongs to a role's question."""
    if specimen.label is Label.RIGHT:
        return True
    if specimen.label is not Label.WRONG:
        return False
    if kind_of(specimen.candidate) is SpecimenOrigin.ATTACK:
        return role is ReviewerRole.CHEATING
    harm = Harm.BUILD if specimen.stage == "compile" else HARMS.get(specimen.operator)
    return OWN.get(role) is harm


def _matrix(name: str, trials: Sequence[CalibrationSample]) -> Matrix:
    """Return one verifier's matrix."""
    if name.startswith(REVIEWER):
        return role_matrix(ReviewerRole(name.removeprefix(REVIEWER)), trials)
    seen = [trial for trial in trials if name in trial.signals]
    matrix = _counted(name, seen, [trial.signals[name].objects for trial in seen])
    return matrix.model_copy(update={"seconds": sum(_seconds(trial, name) for trial in seen)})


def _counted(name: str, trials: Sequence[CalibrationSample], stops: Sequence[bool]) -> Matrix:
    """Return the matrix of stops against labels."""
    pairs = list(zip(trials, stops, strict=True))
    labels = [(trial.specimen.label, stopped) for trial, stopped in pairs]
    saved = sum(one.specimen.gpu_s for one, stopped in pairs if stopped and one.specimen.label is Label.WRONG)
    return Matrix(
        verifier=name,
        caught=labels.count((Label.WRONG, True)),
        missed=labels.count((Label.WRONG, False)),
        alarms=labels.count((Label.RIGHT, True)),
        cleared=labels.count((Label.RIGHT, False)),
        survivors=labels.count((Label.SURVIVOR, True)),
        gpu_saved_s=saved,
    )


def _surprises(trials: Sequence[CalibrationSample], weights: Weights) -> Iterator[Surprise]:
    """Yield the kernels with a wrong decision."""
    for trial in trials:
        specimen, go = trial.specimen, decide(trial.spoken, weights).go
        if go is not (specimen.label is Label.WRONG):
            continue
        truth = f"{specimen.stage} {specimen.reason}" if specimen.reason else ""
        yield Surprise(origin=specimen.candidate.origin, label=specimen.label, truth=truth, said=_said(trial))


def _said(trial: CalibrationSample) -> str:
    """Return the failure that stopped a kernel."""
    failed = trial.verified.stopped_by
    return f"{failed.stage} {failed.reason}: {failed.detail}" if failed else ""


def _model_free(trial: CalibrationSample) -> CalibrationSample:
    """Return a sample without its reviews."""
    spoken = tuple(result for result in trial.verified.results if result.stage in MODEL_FREE)
    return CalibrationSample(trial.specimen, trial.verified.model_copy(update={"results": spoken, "reviews": ()}))


def _of(trials: Sequence[CalibrationSample], operator: str) -> list[CalibrationSample]:
    """Return the samples of one mutation operator."""
    return [trial for trial in trials if trial.specimen.operator == operator]


def _seconds(trial: CalibrationSample, name: str) -> float:
    """Return a verifier's seconds on one kernel."""
    results: Sequence[StageResult] = trial.verified.results
    return sum(result.seconds for result in results if result.stage == name and result.verdict is not Verdict.SKIP)


def _review(trial: CalibrationSample, role: ReviewerRole) -> Review | None:
    """Return a role's review, or None."""
    return next((review for review in trial.verified.reviews if review.role is role), None)


def _objects(trial: CalibrationSample, role: ReviewerRole) -> bool:
    """Return whether a role objects."""
    review = _review(trial, role)
    return review is not None and review.objects


def _wrong(matrix: Matrix) -> int:
    """Return the wrong kernels in a matrix."""
    return matrix.caught + matrix.missed


def _right(matrix: Matrix) -> int:
    """Return the right kernels in a matrix."""
    return matrix.alarms + matrix.cleared

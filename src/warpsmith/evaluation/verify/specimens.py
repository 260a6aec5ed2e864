"""A labelled corpus: kernels as candidates, and what the hard evaluation on a GPU said of each."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path

from pydantic import ValidationError

from warpsmith.base import UsageError, read_text
from warpsmith.records import Candidate, Model, Reason, Record, Verdict, describe_error

REQUESTS, TRUTH = "requests.jsonl", "truth.jsonl"
LIMIT_BYTES = 256 << 20
ON_GPU = ("check", "sanitizer", "record", "timing")


class SpecimenOrigin(StrEnum):
    """How a kernel came into the corpus; the first word of its candidate's origin."""

    HONEST = "honest"
    MUTANT = "mutant"
    ATTACK = "attack"  # of the attack corpus: wrong by what it is, whatever a check says


class Label(StrEnum):
    """What is known of a kernel. A mutant that the GPU passed may hold a fault that this run did not show."""

    RIGHT = "right"  # honest, and passed
    WRONG = "wrong"  # failed on the GPU, or in the compiler
    SURVIVOR = "survivor"  # a mutant, and passed


class LabelledKernel(Model):
    """One kernel of the corpus with its label, and what the hard evaluation cost and said."""

    candidate: Candidate
    label: Label
    stage: str = ""  # the stage that failed it
    reason: Reason | None = None
    gpu_s: float = 0.0  # seconds of stages that used the GPU

    @property
    def operator(self) -> str:
        """The mutation operator, or what kind of honest kernel it is."""
        return self.candidate.origin.split()[1]


def lines_of(path: Path) -> list[str]:
    """The lines of a JSON-lines file; none where there is no such file."""
    text = read_text(path, LIMIT_BYTES) if path.exists() else ""
    return [line for line in text.split("\n") if line.strip()]


def kind_of(candidate: Candidate) -> SpecimenOrigin:
    """Honest or mutant, by the origin's first word."""
    return SpecimenOrigin(candidate.origin.split()[0])


def read_candidates(folder: Path) -> list[Candidate]:
    """The corpus without labels, in its own order."""
    try:
        return [Candidate.parse(line) for line in lines_of(folder / REQUESTS)]
    except ValidationError as error:
        raise UsageError(f"{folder / REQUESTS} is no list of candidates: {describe_error(error)}.") from None


def read_specimens(folder: Path) -> list[LabelledKernel]:
    """The corpus with its labels; a kernel whose evaluation gave no verdict is left out."""
    if not (folder / TRUTH).exists():
        raise UsageError(
            f"{folder} has no {TRUTH}: run `warpsmith eval-batch {folder / REQUESTS} --out {folder / TRUTH} "
            "--device cuda --without static,virtual --until sanitizer` on a machine with a GPU."
        )
    records = _records(lines_of(folder / TRUTH))
    paired = ((one, records.get(one.id)) for one in read_candidates(folder))
    return [specimen for one, record in paired if record and (specimen := labelled(one, record))]


def labelled(candidate: Candidate, record: Record) -> LabelledKernel | None:
    """A candidate with what its record says; None where the record has no verdict on it."""
    ended = record.ended
    spent = sum(result.seconds for result in record.results if result.stage in ON_GPU)
    if ended is None:
        label = Label.RIGHT if kind_of(candidate) is SpecimenOrigin.HONEST else Label.SURVIVOR
        passed = record.concluded is Verdict.PASS
        return LabelledKernel(candidate=candidate, label=label, gpu_s=spent) if passed else None
    if ended.verdict is not Verdict.FAIL:
        return None
    return LabelledKernel(candidate=candidate, label=Label.WRONG, stage=ended.stage, reason=ended.reason, gpu_s=spent)


def _records(lines: Iterable[str]) -> Mapping[str, Record]:
    """The records by their candidate; a line that is none is the batch's word for a candidate it could not take."""
    found = (Record.read(line) for line in lines)
    return {one.candidate.id: one for one in found if isinstance(one, Record)}

"""A labelled corpus of kernels."""

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
    """The origin of a kernel in the corpus."""

    HONEST = "honest"
    MUTANT = "mutant"
    ATTACK = "attack"  # of the attack corpus: wrong by what it is, whatever a check says


class Label(StrEnum):
    """The label of a kernel."""

    # A mutant that the GPU passed is neither right nor wrong: it may hold a fault that this run did not
    # show (design/verifiers.md).

    RIGHT = "right"  # honest, and passed
    WRONG = "wrong"  # failed on the GPU, or in the compiler
    SURVIVOR = "survivor"  # a mutant, and passed


class LabelledKernel(Model):
    """One kernel of the corpus with its label."""

    candidate: Candidate
    label: Label
    stage: str = ""  # the stage that failed it
    reason: Reason | None = None
    gpu_s: float = 0.0  # seconds of stages that used the GPU

    @property
    def operator(self) -> str:
        """The mutation operator, or the honest kernel's kind."""
        return self.candidate.origin.split()[1]


def lines_of(path: Path) -> list[str]:
    """Return a file's lines; none without the file."""
    text = read_text(path, LIMIT_BYTES) if path.exists() else ""
    return [line for line in text.split("\n") if line.strip()]


def kind_of(candidate: Candidate) -> SpecimenOrigin:
    """Return a candidate's origin."""
    return SpecimenOrigin(candidate.origin.split()[0])


def read_candidates(folder: Path) -> list[Candidate]:
    """Read the corpus without labels; raise UsageError if damaged."""
    try:
        return [Candidate.parse(line) for line in lines_of(folder / REQUESTS)]
    except ValidationError as error:
        raise UsageError(f"{folder / REQUESTS} is no list of candidates: {describe_error(error)}.") from None


def read_specimens(folder: Path) -> list[LabelledKernel]:
    """Read the labelled corpus; raise UsageError without labels."""
    if not (folder / TRUTH).exists():
        raise UsageError(
            f"{folder} has no {TRUTH}: run `warpsmith eval-batch {folder / REQUESTS} --out {folder / TRUTH} "
            "--device cuda --without static,virtual --until sanitizer` on a machine with a GPU."
        )
    records = _records(lines_of(folder / TRUTH))
    paired = ((one, records.get(one.id)) for one in read_candidates(folder))
    return [specimen for one, record in paired if record and (specimen := labelled(one, record))]


def labelled(candidate: Candidate, record: Record) -> LabelledKernel | None:
    """Return a candidate's label, or None without a verdict."""
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
    """Return records by candidate, without other lines."""
    found = (Record.read(line) for line in lines)
    return {one.candidate.id: one for one in found if isinstance(one, Record)}

"""The verifiers measured on a labelled corpus, and their weights."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import warpsmith
from warpsmith.app.jobs import Watch, ignore
from warpsmith.base import UsageError, WarpsmithError, check_writable, write_atomic
from warpsmith.evaluation import Results, verify
from warpsmith.evaluation.verify import (
    Calibration,
    CalibrationSample,
    LabelledKernel,
    Verified,
    read_attacks,
    read_replies,
    read_specimens,
    reviewed,
    shipped_weights,
    unseen,
)
from warpsmith.evaluation.verify.calibrate import calibrate as compute_calibration
from warpsmith.tasks.host import open_task

SEED = 20250914  # of the calls on the virtual GPU, fixed so that a calibration is reproducible


@dataclass(frozen=True)
class CalibrationRequest:
    """The corpus, and the files for findings and weights."""

    corpus: Path | None = None  # a folder with requests.jsonl and truth.jsonl; None: the corpus of the checkout
    out: Path | None = None  # findings are appended; kernels in it are not verified again
    sample: int = 0  # only the first kernels; 0: all
    save: Path | None = None  # the file for the weights; None: no file is written
    jobs: int = 1


@dataclass(frozen=True)
class KernelsVerified:
    """Event: so many kernels of the corpus are verified."""

    done: int
    total: int


def calibrate(request: CalibrationRequest, watch: Watch = ignore) -> Calibration:
    """Run the verifiers over a labelled corpus; write weights if asked. Events: KernelsVerified."""
    folder = request.corpus or shipped_corpus()
    specimens = read_specimens(folder)[: request.sample or None]
    if not specimens:
        raise UsageError(f"{folder} has no kernel with a verdict.")
    # Checked now: verifying the corpus takes long, and its result must not be lost at the end.
    if request.save is not None:
        check_writable(request.save)
    samples = [*_samples(folder, specimens, request, watch), *_attack_samples(folder)]
    found = compute_calibration(samples, f"{len(specimens)} kernels of {folder.name}", shipped_weights())
    if request.save is not None:
        write_atomic(request.save, found.weights.model_dump_json(indent=1).encode() + b"\n")
    return found


def shipped_corpus() -> Path:
    """Return the labelled corpus of the checkout. Raise UsageError in an installed package."""
    folder = Path(warpsmith.__file__).parents[2] / "corpus"
    if not folder.is_dir():
        raise UsageError("The corpus is part of the source checkout and not of the package. Name one with --corpus.")
    return folder


def _samples(
    folder: Path, specimens: Sequence[LabelledKernel], request: CalibrationRequest, watch: Watch
) -> Iterator[CalibrationSample]:
    results = Results(request.out) if request.out else None
    replies, known = read_replies(folder), _read_verified(results.lines) if results else {}
    left = [one for one in specimens if one.candidate.id not in known]
    for number, (specimen, verified) in enumerate(_verify_all(left, request.jobs), 1):
        known[specimen.candidate.id] = verified
        if results is not None:
            results.add(verified.text())
        watch(KernelsVerified(number, len(left)))
    for specimen in specimens:
        name = specimen.candidate.id
        yield CalibrationSample(specimen, reviewed(known[name], replies.get(name, ())))


def _verify_all(specimens: Sequence[LabelledKernel], jobs: int) -> Iterator[tuple[LabelledKernel, Verified]]:
    with ThreadPoolExecutor(max(1, jobs)) as pool:
        yield from zip(specimens, pool.map(_verify, specimens), strict=True)


def _verify(specimen: LabelledKernel) -> Verified:
    candidate = specimen.candidate
    try:
        with open_task(candidate.task) as opened:
            return verify.verify(candidate, opened, SEED)
    except WarpsmithError as error:
        # The name of the kernel is added, since many kernels are verified at once.
        raise type(error)(f"{candidate.origin}: {error}") from None


def _attack_samples(folder: Path) -> Iterator[CalibrationSample]:
    """Yield the attacks that reviewers answered; `warpsmith audit` measures the other verifiers on attacks."""
    replies = read_replies(folder)
    for specimen in read_attacks(folder):
        name = specimen.candidate.id
        if name in replies:
            yield CalibrationSample(specimen, reviewed(unseen(name), replies[name]))


def _read_verified(lines: Sequence[str]) -> dict[str, Verified]:
    """Return earlier findings; a kernel whose line cannot be read is verified again."""
    found = (Verified.read(line) for line in lines)
    return {one.candidate: one for one in found if isinstance(one, Verified)}

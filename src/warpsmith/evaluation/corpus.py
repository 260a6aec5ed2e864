"""Evaluation of a corpus of attacks and honest kernels."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from pathlib import Path
from typing import Literal, cast

from pydantic import Field

import warpsmith
from warpsmith.base import UsageError, WarpsmithError, digest_json, read_text
from warpsmith.evaluation.config import EvaluationConfig
from warpsmith.evaluation.processes import Grade, pool_of_judges
from warpsmith.evaluation.run import grade
from warpsmith.languages import language_of
from warpsmith.machines.cuda import CudaMachine
from warpsmith.records import CHANCE, Candidate, Defence, Direction, Model, Reason, Record, Verdict

HEADER = re.compile(r"^//\s*([a-z]+):\s*(.*?)\s*$")
# Attacks that gain nothing were timed within 0.7 % of the kernel inside (design/replay.md).
NO_GAIN = 0.99  # of the honest kernel's time: above this an attack has gained nothing
KNOWN = ("attack", "control", "task", "direction", "caught", "without", "device", "cases", "harmless")


class Expected(Model):
    """A stage and a reason that may catch an attack."""

    stage: str = ""
    reason: Reason


class CorpusFile(Model):
    """One file of a corpus with its header's fields."""

    path: str
    name: str
    attack: bool
    task: str
    direction: Direction = Direction.FORWARD
    device: str = ""  # where it shows: "cuda" only on a real GPU; what shows on the virtual one is tried on both
    cases: Literal["", "all"] = ""  # "all": the first few timing cases do not show it
    caught: tuple[Expected, ...] = ()
    without: tuple[Expected, ...] = ()  # what catches it when defences are left out
    harmless: str = ""


class CorpusOutcome(Model):
    """The outcome of one file, compared with its header."""

    specimen: CorpusFile
    verdict: Verdict
    stage: str = ""
    reason: Reason | None = None
    detail: str = ""
    time_us: float | None = None  # of all cases together, modelled or measured
    honest_us: float | None = None  # of the slow kernel inside an attack that passed, on the same inputs
    seconds: Mapping[str, float] = Field(default_factory=dict)  # that each stage took
    expected: bool = False
    wrong: bool  # an attack that got through, or a control that did not
    key: str = ""  # of the text and of how it was tried: what tells this outcome from others in a file

    @property
    def is_void(self) -> bool:
        """Whether the outcome has no verdict on the file."""
        return self.verdict in (Verdict.FAULT, Verdict.SKIP) or self.reason in CHANCE

    def as_said(self, bare: bool) -> bool:
        """Return whether the outcome matches the header."""
        # `bare` compares with the line `without:`, for runs that leave defences out. A void outcome only
        # has to be no pass. On a GPU the virtual GPU runs first and may find a defect that the header
        # expects of the check.
        if not self.specimen.attack or self.verdict is Verdict.PASS:
            return not self.wrong
        caught = (self.specimen.without or self.specimen.caught) if bare else self.specimen.caught
        stage = "check" if self.stage == "virtual" else self.stage
        return not caught or any(one.reason is self.reason and one.stage in ("", stage) for one in caught)


class Audit(Model):
    """All outcomes of a corpus, with both error rates."""

    outcomes: tuple[CorpusOutcome, ...]
    skipped: tuple[CorpusFile, ...] = ()  # need another device

    def count(self, attack: bool, wrong: bool | None = None) -> int:
        """Return the number of attacks or controls, by correctness."""
        return sum(1 for one in self._tried if one.specimen.attack is attack and wrong in (None, one.wrong))

    @property
    def _tried(self) -> list[CorpusOutcome]:
        """The outcomes without attacks that got no verdict."""
        # An attack without a verdict says nothing of the defences and leaves the rate. A control without
        # a verdict stays: an honest kernel that gets none is a false alarm.
        return [one for one in self.outcomes if not (one.specimen.attack and one.is_void)]

    @property
    def clean(self) -> bool:
        """Whether no attack passed and every control did."""
        return not any(one.wrong for one in self.outcomes)

    @property
    def faulty(self) -> bool:
        """Whether an error of warpsmith occurred."""
        return any(one.verdict is Verdict.FAULT for one in self.outcomes)

    def summary(self) -> str:
        """Return both rates in one line, with their denominators."""
        left = len(self.outcomes) - len(self._tried)
        return (
            f"attacks that succeeded: {self.count(True, True)} of {self.count(True)}; "
            f"false alarms: {self.count(False, True)} of {self.count(False)}"
            f"{f'; attacks without a verdict: {left}' if left else ''}"
        )


def read_corpus(folders: Sequence[Path]) -> list[CorpusFile]:
    """Return corpus files; raise UsageError if there is none."""
    paths = sorted({path for folder in folders for path in _files(folder)})
    found = [specimen for path in paths if (specimen := read_specimen(path)) is not None]
    if not found:
        names = ", ".join(map(str, folders))
        raise UsageError(f"No file in {names} begins with '// attack: …' or '// control: …'.")
    return found


def read_specimen(path: Path) -> CorpusFile | None:
    """Return a file's header, None without one; raise UsageError if wrong."""
    fields = dict(_header(read_text(path)))
    if "attack" not in fields and "control" not in fields:
        return None
    if "task" not in fields:
        raise UsageError(f"{path}: the header has no '// task: NAME'. Add the task that the kernel is for.")
    try:
        return CorpusFile(
            path=str(path),
            name=fields.get("attack") or fields.get("control") or path.stem,
            attack="attack" in fields,
            task=fields["task"],
            direction=Direction(fields.get("direction", "forward")),
            device=fields.get("device", ""),
            cases=cast(Literal["", "all"], fields.get("cases", "")),
            caught=tuple(_expected(fields.get("caught", ""))),
            without=tuple(_expected(fields.get("without", ""))),
            harmless=fields.get("harmless", ""),
        )
    except ValueError as error:
        raise UsageError(f"{path}: its header cannot be read: {error}.") from None


def audit(
    specimens: Sequence[CorpusFile],
    config: EvaluationConfig,
    jobs: int,
    tell: Callable[[CorpusOutcome], None],
    known: Mapping[str, CorpusOutcome] | None = None,
) -> Audit:
    """Evaluate the corpus, `jobs` at a time."""
    # Outcomes of an earlier run in `known` are reused by key. Outcomes are reported as they finish, and
    # returned in the order of the files.
    fit = [one for one in specimens if one.device != CudaMachine.kind or config.device == CudaMachine.kind]
    found = {one.path: known[key] for one in fit if known and (key := key_of(one, config)) in known}
    left = [one for one in fit if one.path not in found]
    with pool_of_judges(config, min(jobs, len(left))) as (threads, by):
        trials = [threads.submit(examine, one, config, by=by) for one in left]
        for done in as_completed(trials):
            tell(done.result())
    found |= {one.specimen.path: one for one in (trial.result() for trial in trials)}
    outcomes = tuple(found[one.path] for one in fit)
    return Audit(outcomes=outcomes, skipped=tuple(one for one in specimens if one not in fit))


def way_for(specimen: CorpusFile, config: EvaluationConfig) -> EvaluationConfig:
    """Return the configuration for one file."""
    return config.replace(most_cases=None) if specimen.cases == "all" else config


def key_of(specimen: CorpusFile, config: EvaluationConfig) -> str:
    """Return a hash of a file's text and configuration."""
    tried = [config.device, config.gpu, sorted(config.without), config.most_cases, config.trust]
    return digest_json([read_text(Path(specimen.path)), tried, warpsmith.__version__])


def untouched(found: Audit, less: EvaluationConfig) -> dict[str, CorpusOutcome]:
    """Return the outcomes that fewer defences cannot change."""
    # A sign in the text decides nothing, and a kernel that the link policy lets through goes the same way
    # without it. Leaving the virtual GPU out changes every outcome.
    if Defence.VIRTUAL in less.without:
        return {}
    ended = ("compile",) if Defence.LINK in less.without else ()
    same = [one for one in found.outcomes if one.stage not in ended and not one.is_void]
    return {
        (key := key_of(one.specimen, less)): one.model_copy(update={"key": key, "expected": one.as_said(True)})
        for one in same
    }


def read_outcomes(lines: Sequence[str]) -> dict[str, CorpusOutcome]:
    """Return an earlier run's outcomes by key, without void ones."""
    found = [one for line in lines if isinstance(one := CorpusOutcome.read(line), CorpusOutcome)]
    return {one.key: one for one in found if one.key and not one.is_void}


def examine(
    specimen: CorpusFile, config: EvaluationConfig, seed: int | None = None, by: Grade = grade
) -> CorpusOutcome:
    """Evaluate one file and return its outcome."""
    # An error of warpsmith counts against a control, which should have passed, and not for an attack.
    source = read_text(Path(specimen.path))
    candidate = Candidate(
        task=specimen.task,
        direction=specimen.direction,
        source=source,
        language=language_of(source),
        origin=Path(specimen.path).name,
    )
    key, way = key_of(specimen, config), way_for(specimen, config)
    try:
        record = by(candidate, way, seed)
        honest = _honest(specimen, candidate, way, record, by)
        return judged(specimen, record, bool(config.without), honest).model_copy(update={"key": key})
    except WarpsmithError as error:
        return CorpusOutcome(
            key=key,
            specimen=specimen,
            verdict=Verdict.FAULT,
            reason=Reason.HARNESS,
            detail=str(error),
            expected=False,
            wrong=not specimen.attack,
        )


def _honest(
    specimen: CorpusFile, candidate: Candidate, config: EvaluationConfig, record: Record, by: Grade
) -> float | None:
    """Return the honest kernel's time in an attack, else None."""
    # With the same seed, so that both times are of the same inputs.
    if not specimen.attack or record.concluded is not Verdict.PASS or "#ifdef HONEST" not in candidate.source:
        return None
    inside = candidate.model_copy(update={"macros": {**candidate.macros, "HONEST": "1"}})
    return _time_us(by(inside, config, record.options.seeds[0]))


def judged(specimen: CorpusFile, record: Record, bare: bool, honest_us: float | None = None) -> CorpusOutcome:
    """Return a record's outcome, compared with the header."""
    # A pass of an attack is a success of the attack, unless the header explains why it does no harm and
    # the attack gained no time.
    verdict = record.concluded
    ended = next((one for one in record.results if one.verdict is record.verdict and one.reason), record.results[-1])
    passed, time_us = verdict is Verdict.PASS, _time_us(record)
    outcome = CorpusOutcome(
        specimen=specimen,
        verdict=verdict,
        stage=ended.stage,
        reason=ended.reason,
        detail=ended.detail,
        time_us=time_us,
        honest_us=honest_us,
        seconds={one.stage: round(one.seconds, 2) for one in record.results},
        wrong=(passed and not _harmless(specimen, time_us, honest_us)) if specimen.attack else not passed,
    )
    return outcome.model_copy(update={"expected": outcome.as_said(bare)})


def _harmless(specimen: CorpusFile, time_us: float | None, honest_us: float | None) -> bool:
    """Return whether the header excuses a pass without gain."""
    known = time_us is not None and honest_us is not None
    return bool(specimen.harmless) and not (known and (time_us or 0.0) < (honest_us or 0.0) * NO_GAIN)


def _time_us(record: Record) -> float | None:
    """Return the sum of all cases' microseconds, or None."""
    cases = record.timing.cases if record.timing else ()
    return sum(case.time.us for case in cases) or None


def _files(folder: Path) -> Iterator[Path]:
    """Yield a folder's .cu files; raise UsageError if missing."""
    if folder.is_file():
        yield folder
    elif folder.is_dir():
        yield from folder.rglob("*.cu")
    else:
        raise UsageError(f"Corpus {folder} does not exist. Give a folder of .cu files, or one file.")


def _header(text: str) -> Iterator[tuple[str, str]]:
    """Yield the fields of a file's first comment lines."""
    for line in text.splitlines():
        if not line.startswith("//"):
            return
        if (match := HEADER.match(line)) and match[1] in KNOWN:
            yield match[1], match[2]


def _expected(text: str) -> Iterator[Expected]:
    """Yield the expectations of a header's line."""
    # The form is `check wrong_value, findings`: a stage holds for all reasons after it until the next
    # stage. `?` stands for an unknown reason.
    stage = ""
    for part in (part.strip() for part in re.split("[,;]", text) if part.strip() not in ("", "?")):
        words = part.split()
        stage = words[0] if len(words) > 1 else stage
        yield Expected(stage=stage, reason=Reason(words[-1]))

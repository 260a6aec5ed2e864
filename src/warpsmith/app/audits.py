"""The corpus of attacks and honest controls, with and without defences."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import warpsmith
from warpsmith import evaluation
from warpsmith.app.jobs import Watch, ignore
from warpsmith.base import UsageError
from warpsmith.evaluation import Audit, CorpusOutcome, EvaluationConfig, Results, read_corpus, read_outcomes, untouched
from warpsmith.records import Defence

GPU_CALL_S, GPU_CASES = 5.0, 2
SHIPPED = ("tests/exploits", "tests/honest")


@dataclass(frozen=True)
class AuditRequest:
    """The corpus, the device, and the defences that are left out."""

    corpus: Sequence[Path] = ()  # empty: the corpus of the checkout
    config: EvaluationConfig = field(default_factory=EvaluationConfig)
    also_without: frozenset[Defence] = frozenset()  # a second audit leaves these out too
    jobs: int = 1
    out: Path | None = None  # outcomes are appended; outcomes in it are not tried again


@dataclass(frozen=True)
class AuditEnded:
    """Event: one audit has ended, with the number of outcomes that were known before."""

    audit: Audit
    config: EvaluationConfig
    known: int


def audit(request: AuditRequest, watch: Watch = ignore) -> list[Audit]:
    """Try the corpus once for each set of defences. Events are CorpusOutcome and AuditEnded."""
    config = audit_config(request.config)
    less = config.replace(without=config.without | request.also_without)
    specimens = read_corpus(request.corpus or shipped_corpus())
    results = Results(request.out) if request.out else None
    known = read_outcomes(results.lines) if results else {}

    def save(outcome: CorpusOutcome) -> None:
        if results is not None:
            results.add(outcome.text())

    def take(outcome: CorpusOutcome) -> None:
        save(outcome)
        watch(outcome)

    found: list[Audit] = []
    # Without a further defence to leave out, both audits would be the same.
    for one in [config] if less == config else [config, less]:
        # An outcome that the left-out defence did not touch is taken over instead of tried again.
        same = untouched(found[-1], one) if found else {}
        for key in same.keys() - known.keys():
            save(same[key])
        known |= same
        found.append(evaluation.audit(specimens, one, request.jobs, take, known))
        watch(AuditEnded(found[-1], one, sum(outcome.key in known for outcome in found[-1].outcomes)))
    return found


def audit_config(config: EvaluationConfig) -> EvaluationConfig:
    """Return the configuration of an audit.

    Baselines are eager alone: an attack is compared with its own honest kernel, and compiling the modes of torch would
    take an hour. On a GPU a call takes milliseconds and many attacks hang, so the limit of a call is short. Two cases
    suffice there, because the honest kernel inside an attack is slow on purpose.
    """
    found = config.replace(device=evaluation.settle_device(config.device), baselines=("eager",))
    is_measured = evaluation.is_measured(found.device)
    return found.replace(call_s=GPU_CALL_S, most_cases=GPU_CASES) if is_measured else found


def shipped_corpus() -> list[Path]:
    """Return the checkout's corpus. Raise UsageError in an installed package."""
    root = Path(warpsmith.__file__).parents[2]
    found = [root / name for name in SHIPPED if (root / name).is_dir()]
    if not found:
        raise UsageError("The corpus is part of the source checkout and not of the package. Name a folder of your own.")
    return found

"""The decision from all verifiers' signals."""

import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from warpsmith.base import Home, UsageError, read_text
from warpsmith.records import Model

SHIPPED = Path(__file__).parent / "weights.json"
SIGNS_ONLY = frozenset({"static"})  # explains, and is never alone a reason to stop
DECISIVE = frozenset({"compile"})  # what does not compile cannot run, whatever else is said
REVIEWER = "review_"
# Infinite odds cannot be stored as JSON. Log-odds of 20 leave a probability of 2e-9.
CERTAIN = 20.0  # log-odds of what is as good as certain


class Signal(Model):
    """The objection or silence of one verifier."""

    verifier: str
    objects: bool
    confidence: float = 1.0


class Weight(Model):
    """The log-odds of an objection and of silence."""

    alarm: float
    clear: float


class Weights(Model):
    """The weights of all verifiers, with prior and threshold."""

    prior: float  # log-odds that a candidate is wrong before anybody looked
    verifiers: Mapping[str, Weight]
    stop: float  # log-odds from which a candidate does not reach the GPU
    source: str = ""  # which corpus set them


class Decision(Model):
    """Stop or go, with the log-odds behind it."""

    go: bool
    odds: float  # natural log-odds of being wrong

    @property
    def wrong(self) -> float:
        """The probability of being wrong."""
        return 1.0 / (1.0 + math.exp(-self.odds))


def decide(signals: Sequence[Signal], weights: Weights) -> Decision:
    """Decide stop or go by the log-odds."""
    # Evidence of independent verifiers adds up in log-odds. A reviewer's approval never undoes a tool's
    # stop: the odds without reviewers count as well, and the larger decides.
    stopping = stopping_odds(signals, weights)
    go = stopping < weights.stop
    return Decision(go=go, odds=total(signals, weights) if go else min(stopping, CERTAIN))


def stopping_odds(signals: Sequence[Signal], weights: Weights) -> float:
    """Return the log-odds for a stop."""
    # Infinite if the compiler objects, since nothing can run then; minus infinity if only signs in the
    # text object (design/verifiers.md).
    if any(signal.objects and signal.verifier in DECISIVE for signal in signals):
        return math.inf
    tools = [signal for signal in signals if not signal.verifier.startswith(REVIEWER)]
    return max(_heavy(tools, weights), _heavy(signals, weights))


def total(signals: Sequence[Signal], weights: Weights) -> float:
    """Return the log-odds of being wrong."""
    return weights.prior + sum(evidence(signal, weights) for signal in signals)


def _heavy(signals: Sequence[Signal], weights: Weights) -> float:
    """Return the log-odds, or minus infinity without an objection."""
    objects = any(signal.objects and signal.verifier not in SIGNS_ONLY for signal in signals)
    return total(signals, weights) if objects else -math.inf


def evidence(signal: Signal, weights: Weights) -> float:
    """Return a signal's log-odds; 0 if uncalibrated."""
    weight = weights.verifiers.get(signal.verifier)
    if weight is None:
        return 0.0
    return signal.confidence * (weight.alarm if signal.objects else weight.clear)


def weight_of(caught: int, wrong: int, alarms: int, right: int) -> Weight:
    """Return the weight for counts on a corpus."""
    # Half a case is added to each count (Jeffreys prior), since no finite corpus proves that a verifier
    # never errs. The log-odds of an objection are never negative, those of silence never positive.
    hit, false = (caught + 0.5) / (wrong + 1), (alarms + 0.5) / (right + 1)
    return Weight(alarm=max(0.0, math.log(hit / false)), clear=min(0.0, math.log((1 - hit) / (1 - false))))


def threshold(right: Sequence[float], wrong: Sequence[float]) -> float:
    """Return the log-odds to stop at."""
    # Above every right kernel of the corpus, halfway to the nearest wrong one.
    highest = max(right, default=-math.inf)
    above = [odds for odds in wrong if highest < odds < math.inf]
    if not math.isfinite(highest):
        return min(above, default=0.0)
    return (highest + min(above)) / 2 if above else highest + 1.0


def weights_path() -> Path:
    """Return the file of this machine's calibration."""
    return Home.locate().data / "verifiers.json"


def load_weights() -> Weights:
    """Load this machine's weights, else the shipped ones."""
    own = weights_path()
    return _read(own) if own.exists() else shipped_weights()


@cache
def shipped_weights() -> Weights:
    """Return the shipped weights."""
    return _read(SHIPPED)


def _read(path: Path) -> Weights:
    """Read weights; raise UsageError if the file has none."""
    found = Weights.read(read_text(path))
    if isinstance(found, str):
        raise UsageError(f"{path} holds no weights ({found}); remove it, or run `warpsmith calibrate`.")
    return found

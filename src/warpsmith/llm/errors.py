"""Failures of models by kind. No message contains a key."""

from warpsmith.base import WarpsmithError


class ModelError(WarpsmithError):
    """A request without an answer; `usd` is its possible cost."""

    usd: float = 0.0


class MissingKey(ModelError):
    """A missing or unusable key of a provider."""

    exit_code = 2


class MissingLibrary(ModelError):
    """The client library, an optional dependency, is not installed."""

    exit_code = 2


class UnknownPrice(ModelError):
    """A budget that a model without price prevents."""

    exit_code = 2


class RequestFailed(ModelError):
    """One failed request: model, failure and remedy.

    `tries` bounds how often the request is made; None leaves it to the caller's patience. `billed` says whether the
    provider may charge for it; a possible charge counts as spent.
    """

    what = "failed"
    remedy = ""
    tries: int | None = None
    billed = False

    def __init__(self, model: str, detail: str, retry_after_s: float | None = None) -> None:
        self.model = model
        self.detail = detail.strip().rstrip(".")
        self.retry_after_s = retry_after_s
        super().__init__(f"{model} {self.what}: {self.detail}. {self.remedy}".strip())


class TimedOut(RequestFailed):
    """No complete answer within the time limit."""

    what = "timed out"
    remedy = "Give it longer with timeout_s=SECONDS."
    tries = 2  # each costs the whole time limit, and perhaps money
    billed = True


class RateLimited(RequestFailed):
    """The provider asks for fewer requests."""

    what = "is rate limited"
    remedy = "Lower concurrency=N for this provider, or wait."


class ServerFailed(RequestFailed):
    """The provider failed or is overloaded."""

    # A 5xx answer carries no completion, so `billed` stays False.
    what = "failed at the provider"


class Unreachable(RequestFailed):
    """The connection failed or broke."""

    what = "cannot be reached"
    remedy = "Check the network and base_url."
    billed = True  # a connection that breaks after the request was sent leaves it open


class Malformed(RequestFailed):
    """An answer that violates the protocol."""

    what = "answered outside the protocol"
    remedy = "Check that base_url speaks the protocol of this provider."
    tries = 3
    billed = True


class EmptyText(RequestFailed):
    """An answer without text and without a refusal."""

    what = "answered with no text"
    remedy = "If it ran out of tokens while thinking, raise max_tokens=N or lower effort=LEVEL."
    tries = 2
    billed = True


class Rejected(RequestFailed):
    """A request that the provider will never serve."""

    what = "was rejected"
    remedy = "Check the key, the model's name, the account's credit and the length of the prompt."
    tries = 1


class BudgetSpent(ModelError):
    """The refusal of a request that could exceed the budget."""


class ScriptEnded(ModelError):
    """A question beyond the end of a script."""


class ReplayMismatch(ModelError):
    """A prompt that the transcript does not contain."""

"""What goes wrong with a model, by kind; no message here ever holds a key. Knows no provider.

ModelError                  exit   tries   billed
├── MissingKey           2             no key in the variable it is read from
├── MissingLibrary       2             the client libraries are not installed
├── UnknownPrice         2             a budget in dollars, and a model whose price nobody knows
├── RequestFailed        3             one request came to nothing
│   ├── TimedOut               2   maybe
│   ├── RateLimited            all no
│   ├── ServerFailed           all no
│   ├── Unreachable            all maybe
│   ├── Malformed              3   maybe
│   ├── EmptyText              2   yes
│   └── Rejected               1   no
├── BudgetSpent          3             the next request could cost more than is left
├── ScriptEnded          3             a scripted model has no answer left
└── ReplayMismatch       3             a replay was asked what nobody recorded
"""

from warpsmith.base import WarpsmithError


class ModelError(WarpsmithError):
    """A model gave no answer; a search goes on without it. `usd` is what asking may have cost all the same."""

    usd: float = 0.0


class MissingKey(ModelError):
    """The variable that a provider's key is read from is not set or cannot be a key."""

    exit_code = 2


class MissingLibrary(ModelError):
    """The client libraries are an extra of the package, and are not here."""

    exit_code = 2


class UnknownPrice(ModelError):
    """A budget in dollars cannot be held for a model without a price."""

    exit_code = 2


class RequestFailed(ModelError):
    """One request to a model failed: which model, how, and what helps.

    `tries` bounds how often the same request is made in all; None leaves it to the patience of the caller. `billed`
    says whether the provider may charge for it; what may have been charged counts as spent.
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
    """No whole answer came within the time limit."""

    what = "timed out"
    remedy = "Give it longer with timeout_s=SECONDS."
    tries = 2  # each costs the whole time limit, and perhaps money
    billed = True


class RateLimited(RequestFailed):
    """The provider wants fewer requests."""

    what = "is rate limited"
    remedy = "Lower concurrency=N for this provider, or wait."


class ServerFailed(RequestFailed):
    """The provider failed or is overloaded."""

    what = "failed at the provider"


class Unreachable(RequestFailed):
    """The connection could not be made, or broke."""

    what = "cannot be reached"
    remedy = "Check the network and base_url."
    billed = True  # a connection that breaks after the request was sent leaves it open


class Malformed(RequestFailed):
    """An answer that is not what the protocol says: not JSON, another shape, another content type."""

    what = "answered outside the protocol"
    remedy = "Check that base_url speaks the protocol of this provider."
    tries = 3
    billed = True


class EmptyText(RequestFailed):
    """An answer with no text in it, without a refusal."""

    what = "answered with no text"
    remedy = "If it ran out of tokens while thinking, raise max_tokens=N or lower effort=LEVEL."
    tries = 2
    billed = True


class Rejected(RequestFailed):
    """The provider will not serve this request however often it is made: key, model name, quota, size."""

    what = "was rejected"
    remedy = "Check the key, the model's name, the account's credit and the length of the prompt."
    tries = 1


class BudgetSpent(ModelError):
    """The next request could cost more than is left of the budget; nothing was sent."""


class ScriptEnded(ModelError):
    """A scripted model was asked more often than its script answers."""


class ReplayMismatch(ModelError):
    """A replay was asked a prompt that its recording does not hold."""

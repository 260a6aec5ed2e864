"""Foreign failures and answers into ours, in one place. Nothing of a request, and no key, comes along."""

from typing import TYPE_CHECKING

import httpx2
from pydantic import SecretStr, ValidationError
from pydantic_ai import exceptions as theirs
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.usage import RequestUsage

from warpsmith.llm.errors import (
    Malformed,
    RateLimited,
    Rejected,
    RequestFailed,
    ServerFailed,
    TimedOut,
    Unreachable,
)
from warpsmith.llm.model import Finish, ModelAnswer

if TYPE_CHECKING:
    from warpsmith.llm.prices import Tariff

DETAIL_CHARACTERS = 500
REMOVED = "[key removed]"
# The first row that fits decides, so a special case stands above its general one.
CATEGORIES: tuple[tuple[type[BaseException], type[RequestFailed]], ...] = (
    (theirs.ModelRateLimitError, RateLimited),
    (theirs.ModelQuotaExceededError, Rejected),
    (theirs.ModelRequestRejectedError, Rejected),
    (theirs.ModelUnavailableError, ServerFailed),
    (theirs.ModelServerError, ServerFailed),
    (theirs.ModelTimeoutError, TimedOut),
    (theirs.ModelRequestTimeout, TimedOut),
    (theirs.ModelConnectionError, Unreachable),
    (theirs.ModelHTTPError, Rejected),
    (theirs.UserError, Rejected),
    (httpx2.TimeoutException, TimedOut),
    (httpx2.TransportError, Unreachable),
    (theirs.AgentRunError, Malformed),
)
# What client libraries raise over an answer of another shape than they expect.
SHAPE = (ValidationError, ValueError, TypeError, KeyError, IndexError, AttributeError, AssertionError)
FOREIGN = (theirs.AgentRunError, theirs.UserError, httpx2.HTTPError, httpx2.InvalidURL, *SHAPE)
FINISHES = {"stop": Finish.STOP, "length": Finish.LENGTH, "content_filter": Finish.REFUSAL}


def failure(error: BaseException, model: str, key: SecretStr | None) -> RequestFailed:
    """Our failure for theirs."""
    category = next((ours for foreign, ours in CATEGORIES if isinstance(error, foreign)), Malformed)
    if isinstance(error, theirs.ModelHTTPError) and error.status_code == 408:
        category = TimedOut
    after_s = error.retry_after if isinstance(error, theirs.ModelAPIError) else None
    return category(model, clean(_detail(error), key)[:DETAIL_CHARACTERS], after_s)


def _detail(error: BaseException) -> str:
    if isinstance(error, theirs.ModelHTTPError):
        return f"HTTP {error.status_code}, {error.body}"
    if isinstance(error, theirs.AgentRunError):
        return error.message
    if isinstance(error, SHAPE):
        return f"its answer has another shape ({type(error).__name__})"
    return str(error) or type(error).__name__


def answer(response: ModelResponse, name: str, seconds: float, tariff: "Tariff", key: SecretStr | None) -> ModelAnswer:
    """Our answer for theirs; thinking is not part of the text."""
    usage = response.usage
    if not (response.parts or response.finish_reason or usage.input_tokens):
        raise Malformed(name, "it has neither a text nor an end nor a count of tokens")
    text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
    details = response.provider_details or {}
    return ModelAnswer(
        text=clean(text or str(details.get("refusal") or ""), key),
        model=name,
        served=clean(response.model_name or "", key),
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        usd=_usd(usage, tariff),
        seconds=seconds,
        finish=FINISHES.get(response.finish_reason or "", Finish.OTHER),
    )


def _usd(usage: RequestUsage, tariff: "Tariff") -> float | None:
    """The dollars, unknown where a server counts no tokens."""
    if usage.input_tokens == 0:
        return None
    return tariff.usd(usage.input_tokens, usage.output_tokens, usage.cache_read_tokens)


def clean(text: str, key: SecretStr | None) -> str:
    """Text as it may be kept: without the key, should a server send it back, and fit for UTF-8."""
    whole = text.encode("utf-8", "replace").decode()
    return whole.replace(key.get_secret_value(), REMOVED) if key else whole

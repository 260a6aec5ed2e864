"""Translation of a client library's answers and failures, without keys."""

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
from warpsmith.llm.model import FinishReason, ModelAnswer

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
FINISHES = {"stop": FinishReason.STOP, "length": FinishReason.LENGTH, "content_filter": FinishReason.REFUSAL}


def translate_failure(error: BaseException, model: str, key: SecretStr | None) -> RequestFailed:
    """Translate a client library's error to RequestFailed."""
    # Malformed is the default: an unknown failure comes from an answer of another shape.
    category = next((ours for foreign, ours in CATEGORIES if isinstance(error, foreign)), Malformed)
    # 408 is Request Timeout (RFC 9110), which may be repeated; other 4xx answers are final.
    if isinstance(error, theirs.ModelHTTPError) and error.status_code == 408:
        category = TimedOut
    after_s = error.retry_after if isinstance(error, theirs.ModelAPIError) else None
    return category(model, redact(_describe_error(error), key)[:DETAIL_CHARACTERS], after_s)


def _describe_error(error: BaseException) -> str:
    """Return an error as one sentence."""
    if isinstance(error, theirs.ModelHTTPError):
        return f"HTTP {error.status_code}, {error.body}"
    if isinstance(error, theirs.AgentRunError):
        return error.message
    if isinstance(error, SHAPE):
        # The message of such an error may quote the answer, and with it a key that the server echoed.
        return f"its answer has another shape ({type(error).__name__})"
    return str(error) or type(error).__name__


def translate_answer(
    response: ModelResponse, name: str, seconds: float, tariff: "Tariff", key: SecretStr | None
) -> ModelAnswer:
    """Translate a client library's answer; thinking is not part of the text."""
    usage = response.usage
    # A server that speaks another protocol may answer 200 with an empty object.
    if not (response.parts or response.finish_reason or usage.input_tokens):
        raise Malformed(name, "it has neither a text nor an end nor a count of tokens")
    text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
    details = response.provider_details or {}
    return ModelAnswer(
        text=redact(text or str(details.get("refusal") or ""), key),
        model=name,
        served=redact(response.model_name or "", key),
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        usd=_cost_usd(usage, tariff),
        seconds=seconds,
        finish=FINISHES.get(response.finish_reason or "", FinishReason.OTHER),
    )


def _cost_usd(usage: RequestUsage, tariff: "Tariff") -> float | None:
    """Return the cost, or None if the server counts no tokens."""
    # A request always has input tokens: 0 means that the server reports no usage, so the cost is unknown.
    if usage.input_tokens == 0:
        return None
    return tariff.usd(usage.input_tokens, usage.output_tokens, usage.cache_read_tokens)


def redact(text: str, key: SecretStr | None) -> str:
    """Remove the key from a text and make it valid UTF-8."""
    # A lone surrogate cannot be written as UTF-8 and would break the transcript.
    whole = text.encode("utf-8", "replace").decode()
    return whole.replace(key.get_secret_value(), REMOVED) if key else whole

"""Prompt, answer, and the protocol of a language model."""

from enum import StrEnum
from typing import Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict

from warpsmith.base import digest


class Frozen(BaseModel):
    """A frozen model that refuses unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Prompt(Frozen):
    """A question for a model; `kind` is its purpose (`translate`, `propose`, `review`, `summarize`, …)."""

    system: str
    user: str
    kind: str

    @property
    def key(self) -> str:
        """Hash of kind and texts; with the model's name it identifies a request."""
        return digest("prompt", self.kind, self.system, self.user)


class FinishReason(StrEnum):
    """Why an answer ends: complete, cut at `max_tokens`, refused, or not stated."""

    STOP = "stop"
    LENGTH = "length"
    REFUSAL = "refusal"
    OTHER = "other"


class ModelAnswer(Frozen):
    """A model's text with its tokens, cost and failed attempts; `usd` is None if the price is unknown.

    `model` is the name in the request, `served` the name that the provider returned.
    """

    text: str
    model: str
    served: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    usd: float | None = None
    seconds: float = 0.0
    finish: FinishReason = FinishReason.STOP

    @property
    def is_refused(self) -> bool:
        """Whether the model or a content filter refused; the text may state why."""
        return self.finish is FinishReason.REFUSAL


@runtime_checkable
class LanguageModel(Protocol):
    """Anything that answers prompts: a provider's model, a script, a transcript.

    The name contains the settings. `ask` raises ModelError; a refusal is an answer.
    """

    @property
    def name(self) -> str: ...

    async def ask(self, prompt: Prompt) -> ModelAnswer: ...

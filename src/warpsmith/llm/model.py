"""Prompts, answers, and the protocol of a language model."""

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
        # The key selects a recorded answer, so a change here would orphan every transcript.
        return digest("prompt", self.kind, self.system, self.user)


class FinishReason(StrEnum):
    """The end of an answer: complete, cut at `max_tokens`, refused or unknown."""

    STOP = "stop"
    LENGTH = "length"
    REFUSAL = "refusal"
    OTHER = "other"


class ModelAnswer(Frozen):
    """A model's text with tokens, cost and end; `usd` is None without a price.

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


# Runtime checkable: an ensemble accepts any object with a name and `ask`.
@runtime_checkable
class LanguageModel(Protocol):
    """Anything that answers prompts: a provider's model, a script, a transcript.

    The name contains the settings. `ask` raises ModelError; a refusal is an answer.
    """

    @property
    def name(self) -> str: ...

    async def ask(self, prompt: Prompt) -> ModelAnswer: ...

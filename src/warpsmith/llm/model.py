"""The nouns: a prompt, an answer, and the protocol between them. Knows no provider and no price."""

from enum import StrEnum
from typing import Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict

from warpsmith.base import digest


class Frozen(BaseModel):
    """A frozen value, closed to unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Prompt(Frozen):
    """What a model is asked; `kind` says for what (`translate`, `propose`, `review`, `summarize`, …)."""

    system: str
    user: str
    kind: str

    @property
    def key(self) -> str:
        """The hash of its content. A model's name holds its settings, so (name, key) stands for a request."""
        return digest("prompt", self.kind, self.system, self.user)


class Finish(StrEnum):
    """Why an answer ends: by itself, at `max_tokens`, refused, or for a reason the provider did not say."""

    STOP = "stop"
    LENGTH = "length"
    REFUSAL = "refusal"
    OTHER = "other"


class ModelAnswer(Frozen):
    """What a model said and what it took, with failed attempts at it; `usd` is None when nobody knows the price.

    `model` is the name it was asked under; `served` is what the provider says answered.
    """

    text: str
    model: str
    served: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    usd: float | None = None
    seconds: float = 0.0
    finish: Finish = Finish.STOP

    @property
    def refused(self) -> bool:
        """Whether the model, or a filter before it, would not answer; the text is then its excuse, if any."""
        return self.finish is Finish.REFUSAL

    @property
    def cut(self) -> bool:
        """Whether it ends at `max_tokens` and not by itself."""
        return self.finish is Finish.LENGTH


@runtime_checkable
class LanguageModel(Protocol):
    """Anything that answers a prompt: a provider's model, a script, a recording.

    `name` tells models with other settings apart. `ask` raises a `ModelError`; a refusal is an answer.
    """

    @property
    def name(self) -> str: ...

    async def ask(self, prompt: Prompt) -> ModelAnswer: ...

"""Retries: which failures, how often, after how many seconds."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from warpsmith.llm.errors import EmptyText, ModelError, RequestFailed
from warpsmith.llm.model import LanguageModel, ModelAnswer, Prompt

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Patience:
    """Pauses that double from `first_s` to `longest_s`, each drawn between half and all of it.

    A provider's Retry-After is obeyed up to `most_s` seconds; a longer one ends the retries.
    """

    attempts: int = 5
    first_s: float = 1.0
    longest_s: float = 60.0
    most_s: float = 300.0

    def pause_s(self, error: RequestFailed, tried: int, share: float) -> float | None:
        """Return the pause after attempt number `tried`, or None to stop."""
        # The limit of the failure and the limit of the settings both hold.
        if tried >= min(self.attempts, error.tries or self.attempts):
            return None
        asked = error.retry_after_s or 0.0
        # A longer Retry-After than `most_s` seconds (such as a daily quota) ends the attempts instead of blocking a
        # search.
        if asked > self.most_s:
            return None
        doubled = self.first_s * 2.0 ** min(tried - 1, 30)  # past thirty doublings only `longest_s` speaks
        # The random half spreads requests that failed together, so that they do not return together.
        return max(min(doubled, self.longest_s) * (0.5 + share / 2), asked)


class PatientModel:
    """A model that repeats requests after temporary failures."""

    def __init__(
        self,
        model: LanguageModel,
        patience: Patience,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._model = model
        self._patience = patience
        self._sleep = sleep
        self._draw = draw

    @property
    def name(self) -> str:
        """The name of the wrapped model."""
        return self._model.name

    async def ask(self, prompt: Prompt) -> ModelAnswer:
        """Return the first answer or raise the last failure."""
        tried, lost_usd = 0, 0.0
        while True:
            tried += 1
            try:
                return _require_text(await self._model.ask(prompt), lost_usd)
            except ModelError as error:
                # Every attempt may have cost money, so the last failure carries the sum.
                error.usd = lost_usd = lost_usd + error.usd
                pause_s = self._pause_s(error, tried)
                if pause_s is None:
                    raise
                LOG.info("%s; asking again in %.1f s (attempt %d)", error, pause_s, tried + 1)
            await self._sleep(pause_s)

    def _pause_s(self, error: ModelError, tried: int) -> float | None:
        """Return the pause in seconds, or None to stop."""
        return self._patience.pause_s(error, tried, self._draw()) if isinstance(error, RequestFailed) else None


def _require_text(answer: ModelAnswer, lost_usd: float) -> ModelAnswer:
    """Return an answer with its full cost. Raise EmptyText."""
    if answer.text.strip() or answer.is_refused:
        # The cost of failed attempts is added to the answer, since the run books one cost for one question.
        return answer.model_copy(update={"usd": (answer.usd or 0.0) + lost_usd}) if lost_usd else answer
    empty = EmptyText(answer.model, f"it ended by {answer.finish} after {answer.output_tokens} tokens")
    empty.usd = answer.usd or 0.0
    raise empty

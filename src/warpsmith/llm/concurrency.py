"""Concurrent questions, and a limit on requests."""

import asyncio
import weakref
from collections.abc import Iterable
from types import TracebackType

from warpsmith.llm.errors import ModelError
from warpsmith.llm.model import LanguageModel, ModelAnswer, Prompt

Outcome = ModelAnswer | ModelError


async def ask_many(questions: Iterable[tuple[LanguageModel, Prompt]]) -> list[Outcome]:
    """Ask all questions at once; return outcomes in order."""
    return list(await asyncio.gather(*(_ask_one(model, prompt) for model, prompt in questions)))


def ask_all(questions: Iterable[tuple[LanguageModel, Prompt]]) -> list[Outcome]:
    """Call `ask_many` without an event loop."""
    return asyncio.run(ask_many(questions))


async def _ask_one(model: LanguageModel, prompt: Prompt) -> Outcome:
    """Return the answer or the failure of one question."""
    try:
        return await model.ask(prompt)
    # A failure is a value here: gather would otherwise end with the first failure and lose the other answers.
    except ModelError as error:
        return error


class Gate:
    """An `async with` that at most `limit` tasks of an event loop hold at a time."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        # A semaphore belongs to one event loop. `asyncio.run` makes a new loop for each generation, so each loop has
        # its own.
        self._slots: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore]
        self._slots = weakref.WeakKeyDictionary()

    async def __aenter__(self) -> None:
        slots = self._slots.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(self.limit))
        await slots.acquire()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._slots[asyncio.get_running_loop()].release()

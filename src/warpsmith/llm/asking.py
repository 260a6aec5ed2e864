"""Concurrent questions; a failure is a value among the answers."""

import asyncio
from collections.abc import Iterable

from warpsmith.llm.errors import ModelError
from warpsmith.llm.model import LanguageModel, ModelAnswer, Prompt

Outcome = ModelAnswer | ModelError


async def ask_many(questions: Iterable[tuple[LanguageModel, Prompt]]) -> list[Outcome]:
    """Ask all questions at once and return outcomes in the order of the questions."""
    return list(await asyncio.gather(*(_ask_one(model, prompt) for model, prompt in questions)))


def ask_all(questions: Iterable[tuple[LanguageModel, Prompt]]) -> list[Outcome]:
    """Call `ask_many` without an event loop."""
    return asyncio.run(ask_many(questions))


async def _ask_one(model: LanguageModel, prompt: Prompt) -> Outcome:
    try:
        return await model.ask(prompt)
    except ModelError as error:
        return error

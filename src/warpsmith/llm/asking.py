"""Many questions at once; a failure is a value among the answers."""

import asyncio
from collections.abc import Iterable

from warpsmith.llm.errors import ModelError
from warpsmith.llm.model import LanguageModel, ModelAnswer, Prompt

Outcome = ModelAnswer | ModelError


async def ask_many(questions: Iterable[tuple[LanguageModel, Prompt]]) -> list[Outcome]:
    """Ask all at once; each outcome stands where its question stood."""
    return list(await asyncio.gather(*(_one(model, prompt) for model, prompt in questions)))


def ask_all(questions: Iterable[tuple[LanguageModel, Prompt]]) -> list[Outcome]:
    """`ask_many` for callers without an event loop."""
    return asyncio.run(ask_many(questions))


async def _one(model: LanguageModel, prompt: Prompt) -> Outcome:
    try:
        return await model.ask(prompt)
    except ModelError as error:
        return error

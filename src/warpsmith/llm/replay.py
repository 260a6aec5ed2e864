"""Recording and replay of model traffic."""

import threading
from collections import defaultdict, deque
from collections.abc import Iterable
from itertools import zip_longest
from pathlib import Path

from warpsmith.llm import errors
from warpsmith.llm.errors import ModelError, ReplayMismatch, RequestFailed
from warpsmith.llm.model import LanguageModel, ModelAnswer, Prompt
from warpsmith.llm.tape import Exchange, RecordedFailure, TranscriptFile, TranscriptModel, read_transcript

SHOWN_CHARACTERS = 120


class TranscriptWriter:
    """A model that records every exchange."""

    def __init__(self, model: LanguageModel, tape: TranscriptFile | Path) -> None:
        self._model = model
        self._tape = (
            tape if isinstance(tape, TranscriptFile) else TranscriptFile(tape, [TranscriptModel(name=model.name)])
        )

    @property
    def name(self) -> str:
        """The name of the wrapped model."""
        return self._model.name

    async def ask(self, prompt: Prompt) -> ModelAnswer:
        """Ask the model and store the outcome."""
        try:
            answer = await self._model.ask(prompt)
        except ModelError as error:
            self._tape.add(Exchange(model=self.name, prompt=prompt, failure=RecordedFailure.of(error)))
            raise
        self._tape.add(Exchange(model=self.name, prompt=prompt, answer=answer))
        return answer


class Transcript:
    """A file's exchanges, each used once, equal prompts in recorded order."""

    def __init__(self, path: Path) -> None:
        self.path = path
        header, self.exchanges = read_transcript(path)
        spoke = dict.fromkeys(exchange.model for exchange in self.exchanges)
        self.voices = header.voices or tuple(TranscriptModel(name=name) for name in spoke)
        # Evaluations in threads may ask at the same time; without the lock, two could take one exchange.
        self._lock = threading.Lock()
        self._left: dict[str, deque[Exchange]] = defaultdict(deque)
        for exchange in self.exchanges:
            self._left[exchange.prompt.key].append(exchange)

    def take(self, prompt: Prompt, model: str | None) -> Exchange:
        """Return the next exchange of a prompt with a model (any if None).

        Raise ReplayMismatch with the first different line if there is none.
        """
        with self._lock:
            queue = self._left[prompt.key]
            # A queue may hold the same prompt to several models; the first exchange of the wanted model is taken.
            for place, exchange in enumerate(queue):
                if model in (None, exchange.model):
                    del queue[place]
                    return exchange
        raise ReplayMismatch(self._mismatch(prompt, model))

    def _mismatch(self, prompt: Prompt, model: str | None) -> str:
        """Return the error for a prompt that the file lacks."""
        asked = f"a {prompt.kind} prompt" + (f" to {model}" if model else "")
        same = [old for old in self.exchanges if old.prompt.key == prompt.key]
        if any(model in (None, old.model) for old in same):
            return f"{self.path} answers {asked} {len(same)} times, and all are used. Record again with --record."
        if same:
            return f"{self.path} holds this prompt for {same[0].model}; {model} was asked. Use the same --models."
        nearest = self._closest_prompt(prompt)
        if nearest is None:
            return f"{self.path} has no {prompt.kind} prompt left to compare {asked} with. Record again with --record."
        return (
            f"{self.path} does not hold {asked}. The nearest recorded one is on line {self._line_number(nearest)}, and "
            f"differs in {describe_difference(nearest.prompt, prompt)}. Record again with --record, or undo the change."
        )

    def _closest_prompt(self, prompt: Prompt) -> Exchange | None:
        """Return the most similar unused exchange."""
        left = [exchange for queue in self._left.values() for exchange in queue if exchange.prompt.kind == prompt.kind]
        return max(left, key=lambda old: _count_equal_lines(old.prompt, prompt), default=None)

    def _line_number(self, exchange: Exchange) -> int:
        """Return the line of an exchange in the file."""
        # Line 1 is the header, so exchanges begin with line 2.
        return next(place for place, old in enumerate(self.exchanges, 2) if old is exchange)


class Replayer:
    """A model that answers from a transcript."""

    def __init__(self, recording: Transcript | Path, model: str | None = None) -> None:
        self._recording = recording if isinstance(recording, Transcript) else Transcript(recording)
        self._only = model

    @property
    def name(self) -> str:
        """The recorded name."""
        names = [voice.name for voice in self._recording.voices]
        return self._only or (names[0] if len(names) == 1 else "replay")

    async def ask(self, prompt: Prompt) -> ModelAnswer:
        """Return the recorded answer or raise the recorded failure."""
        exchange = self._recording.take(prompt, self._only)
        if exchange.answer is not None:
            return exchange.answer
        raise _rebuild_error(exchange)


def _rebuild_error(exchange: Exchange) -> ModelError:
    """Rebuild a recorded failure."""
    failure = exchange.failure or RecordedFailure(
        kind="ModelError", message="neither an answer nor a failure was recorded"
    )
    # The class name is read from a file, so anything that is no ModelError is replaced.
    kind = getattr(errors, failure.kind, ModelError)
    if not (isinstance(kind, type) and issubclass(kind, ModelError)):
        kind = ModelError
    error: ModelError = kind(exchange.model, failure.message) if issubclass(kind, RequestFailed) else kind()
    error.args = (failure.message,)
    return error


def describe_difference(recorded: Prompt, asked: Prompt) -> str:
    """Describe the first line in which two prompts differ."""
    for part in ("system", "user"):
        pairs = zip_longest(getattr(recorded, part).splitlines(), getattr(asked, part).splitlines())
        for place, (old, new) in enumerate(pairs, 1):
            if old != new:
                return f"line {place} of its {part} text: recorded {_quote_line(old)}, asked {_quote_line(new)}"
    return "its line ends"


def _quote_line(line: str | None) -> str:
    """Return a line shortened for a message."""
    if line is None:
        return "no such line"
    return repr(line if len(line) <= SHOWN_CHARACTERS else line[:SHOWN_CHARACTERS] + "…")


def _count_equal_lines(one: Prompt, other: Prompt) -> int:
    """Return the number of equal lines at the start."""
    return _count_common_prefix(one.system.splitlines(), other.system.splitlines()) + _count_common_prefix(
        one.user.splitlines(), other.user.splitlines()
    )


def _count_common_prefix(one: Iterable[str], other: Iterable[str]) -> int:
    """Return the number of equal items at the start."""
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count

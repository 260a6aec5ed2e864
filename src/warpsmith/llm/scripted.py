"""A model that answers from a script."""

from collections.abc import Callable, Sequence

from warpsmith.llm.errors import ModelError, ScriptEnded
from warpsmith.llm.model import ModelAnswer, Prompt

Line = str | ModelAnswer | ModelError
BYTES_PER_TOKEN = 4  # as good as any for a fake


class ScriptedModel:
    """A model that answers from a list in turn, or from a function of the prompt.

    An error in the script is raised. `asked` holds every prompt in order.
    """

    def __init__(self, script: Sequence[Line] | Callable[[Prompt], Line], name: str = "scripted") -> None:
        self._script = script
        self._name = name
        self.asked: list[Prompt] = []

    @property
    def name(self) -> str:
        """The name of the model."""
        return self._name

    async def ask(self, prompt: Prompt) -> ModelAnswer:
        """Return the next line of the script."""
        self.asked.append(prompt)
        line = self._next_line(prompt)
        if isinstance(line, ModelError):
            raise line
        return self._make_answer(prompt, line) if isinstance(line, str) else line

    def _next_line(self, prompt: Prompt) -> Line:
        """Return the text for a prompt."""
        if callable(self._script):
            return self._script(prompt)
        turn = len(self.asked)
        if turn > len(self._script):
            raise ScriptEnded(f"{self.name} was asked {turn} times; its script has {len(self._script)} answers.")
        return self._script[turn - 1]

    def _make_answer(self, prompt: Prompt, text: str) -> ModelAnswer:
        """Return the answer with a text."""
        # An estimate, since a script has no tokenizer; the price is 0 in any case.
        tokens_in = (len(prompt.system) + len(prompt.user)) // BYTES_PER_TOKEN
        tokens_out = len(text) // BYTES_PER_TOKEN
        return ModelAnswer(text=text, model=self.name, input_tokens=tokens_in, output_tokens=tokens_out, usd=0.0)

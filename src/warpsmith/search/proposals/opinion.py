"""What the verifiers say of a candidate before it is evaluated. Knows no verifier."""

from collections.abc import Callable

from warpsmith.llm import ModelAnswer
from warpsmith.records import Candidate, Model


class Opinion(Model):
    """Whether to go on, how surely, why not, and what reviewers answered."""

    go: bool = True
    confidence: float = 1.0  # that it is right
    why: str = ""
    answers: tuple[ModelAnswer, ...] = ()  # of models that were asked for it

    @property
    def usd(self) -> float:
        """What asking reviewers cost."""
        return sum(answer.usd or 0.0 for answer in self.answers)


Screen = Callable[[Candidate], Opinion]

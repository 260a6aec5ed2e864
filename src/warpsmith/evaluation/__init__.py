"""Orders the stages and runs them: one candidate, a batch, a corpus. Knows no kernel and no clock."""

from warpsmith.evaluation.choices import Choices, Defence, settled
from warpsmith.evaluation.run import evaluate, grade

__all__ = ["Choices", "Defence", "evaluate", "grade", "settled"]

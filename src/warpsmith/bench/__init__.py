"""Orders the stages and runs them: one candidate, a batch, a corpus. Knows no kernel and no clock."""

from warpsmith.bench.choices import Choices, Defence, settled
from warpsmith.bench.run import concluded, evaluate, grade

__all__ = ["Choices", "Defence", "concluded", "evaluate", "grade", "settled"]

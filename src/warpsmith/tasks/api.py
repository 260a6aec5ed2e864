"""Names that a task file imports."""

from typing import TypeAlias

from torch import Tensor

from warpsmith.records import Case
from warpsmith.tasks.inputs import Draw

Input: TypeAlias = Tensor  # data; a gradient flows to it when it is floating
Parameter: TypeAlias = Tensor  # a weight; likewise
Fixed: TypeAlias = Tensor  # indices and tables; no gradient

__all__ = ["Case", "Draw", "Fixed", "Input", "Parameter"]

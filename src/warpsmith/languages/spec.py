"""The description of one language as a value."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from warpsmith.languages.cuda import MutationOperator, Space
from warpsmith.languages.nvcc import Compiled, CompileOptions
from warpsmith.records import Candidate, Direction, Signature, StageResult, Task

T = TypeVar("T")


class Compiler(Protocol):
    """A compiler of one language's candidates."""

    def compile(
        self, candidate: Candidate, signature: Signature | None = None, options: CompileOptions | None = None
    ) -> Compiled:
        """Compile a candidate; a defect of the candidate is a FAIL, never an exception.

        With a signature, the entry point of the candidate's direction must take and return the task's values.
        """
        ...


@dataclass(frozen=True)
class LanguageSpec:
    """One language.

    Records hold `key`; files end with `suffix`. With `results_preallocated` the caller passes result tensors after the
    arguments.
    """

    key: str
    title: str  # in prompts and messages: "a CUDA C++ file"
    suffix: str
    fences: tuple[str, ...]  # names of code blocks in an answer, the one of prompts first
    comment: str  # that begins a comment of one line
    kernel: re.Pattern[str]  # found in every kernel, and hardly in other text
    opening: str  # with which a kernel begins where an answer has no code block
    rules: str  # for prompts: how a kernel is written
    compiler: Compiler
    results_preallocated: bool
    recognizes: Callable[[str], bool]  # whether a source is written in it
    skeleton: Callable[[Task, Direction], str]
    read_space: Callable[[str], Space]  # the tunables of a source
    tokens: Callable[[str], tuple[str, ...]]  # without comments and layout
    tags: Callable[[str], tuple[str, ...]]  # techniques that a source shows
    find_signs: Callable[[Candidate, Sequence[str]], StageResult]  # static rules
    mutation_operators: tuple[MutationOperator, ...]

    def passed_results(self, results: Sequence[T]) -> Sequence[T]:
        """Return the results that a caller passes after the arguments: all or none."""
        return results if self.results_preallocated else ()

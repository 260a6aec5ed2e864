"""Compiles the corpora and runs them in a sandbox. Knows no expectation."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import torch

from warpsmith.languages.nvcc import Compiled, CompileOptions, compile
from warpsmith.machines.virtual import ExecutorSettings
from warpsmith.machines.worker import Observation, Sandbox, VirtualSandbox
from warpsmith.machines.worker.tensors import to_tensor, to_values
from warpsmith.records import Candidate, Direction, Language

BUDGET = 20_000_000  # thread-instructions: far above what any kernel here needs, spent in well under a second


def virtual() -> VirtualSandbox:
    """The virtual GPU with a budget fit for small kernels."""
    return VirtualSandbox(settings=ExecutorSettings(instruction_budget=BUDGET))


@cache
def compiled(source: str, arch: str = "sm_90a") -> Compiled:
    """A source compiled, whatever came of it."""
    plain = "PYBIND11_MODULE" not in source
    language = Language.PLAIN if plain else Language.TORCH
    candidate = Candidate(task="corpus", direction=Direction.FORWARD, source=source, language=language)
    return compile(candidate, options=CompileOptions(arch=arch))


def artifact(source: str, arch: str = "sm_90a") -> Path:
    """The artifact of a source that must compile."""
    found = compiled(source, arch)
    assert found.artifact is not None, found.result.detail
    return found.artifact


def observe(source: str, entry: str, arguments: Sequence[object], sandbox: Sandbox | None = None) -> Observation:
    """One call of one entry in a process of its own."""
    return (sandbox or virtual()).run(artifact(source), entry, to_values(arguments))


def tensors(observation: Observation) -> tuple[torch.Tensor, ...]:
    """The results as torch sees them."""
    return tuple(to_tensor(raw) for raw in observation.results)

"""The first stages of every machine: static signs and compilation."""

from dataclasses import replace

from warpsmith.evaluation.stages.evaluation import Artifact, Evaluation, StageOutcome
from warpsmith.languages import compile_candidate as compile_with_its_compiler, find_language
from warpsmith.languages.nvcc import CompileOptions
from warpsmith.records import Defence


def find_signs(evaluation: Evaluation) -> StageOutcome:
    """Find signs of cheating in the source text."""
    # A sign never stops a candidate: a correct kernel may contain the words, and a cheating one may paste
    # them together (design/verifiers.md).
    find = find_language(evaluation.candidate.language).find_signs
    return StageOutcome(find(evaluation.candidate, evaluation.task.libraries))


def compile_candidate(evaluation: Evaluation) -> StageOutcome:
    """Compile the candidate for the machine's architecture."""
    options = CompileOptions.of(evaluation.task, evaluation.machine.arch)
    if Defence.LINK in evaluation.config.without:
        options = replace(options, link_policy=False)
    made = compile_with_its_compiler(evaluation.candidate, evaluation.signature, options)
    return StageOutcome(made.result, (Artifact(made.artifact),) if made.artifact else ())

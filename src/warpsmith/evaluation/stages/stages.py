"""The stages that need no GPU: signs in the text, compile, check on the virtual GPU, the time that it models."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from warpsmith.evaluation.choices import Defence
from warpsmith.evaluation.stages.desk import Desk
from warpsmith.evaluation.stages.modelled import modelled
from warpsmith.evaluation.stages.sketch import sketched
from warpsmith.evaluation.verify.static import look_static
from warpsmith.languages.nvcc import CompileOptions, compile
from warpsmith.languages.nvcc.options import DEFAULT_ARCH
from warpsmith.machines.hardware import gpus
from warpsmith.machines.virtual import describe
from warpsmith.machines.virtual.session import VirtualSession
from warpsmith.records import Record, StageResult

Stage: TypeAlias = Callable[[Record], StageResult]


def static_stage(desk: Desk) -> Stage:
    """Signs in the text: a better reason for what a later stage finds, and no verdict of their own."""
    return lambda record: look_static(record.candidate, desk.task.libraries)


def compile_stage(desk: Desk) -> Stage:
    """Source to artifact."""

    def stage(record: Record) -> StageResult:
        options = CompileOptions.of(desk.task, arch_of(desk.choices.device))
        if Defence.LINK in desk.choices.without:
            options = replace(options, link_policy=False)
        made = compile(record.candidate, desk.signature, options)
        desk.artifact = made.artifact
        return made.result

    return stage


def arch_of(device: str) -> str:
    """The architecture of the GPU that is here; the compiler's own default where there is none."""
    here = gpus() if device == "cuda" else ()
    return here[0].arch if here else DEFAULT_ARCH


def virtual_stage(desk: Desk, name: str = "check") -> Stage:
    """The plan's calls on the virtual GPU."""

    def stage(record: Record) -> StageResult:
        from warpsmith.evaluation.check.run import Subject, check

        direction = record.candidate.direction
        subject = Subject(desk.task, direction, desk.opened.problem, desk.plain)
        gpu = describe(desk.choices.gpu)
        seconds = desk.choices.call_s
        with VirtualSession(desk.compiled(), direction.value, desk.signature, gpu, call_s=seconds) as session:
            checked = check(subject, desk.steps("vgpu"), session)
        desk.seen = checked.seen
        return checked.result.model_copy(update={"stage": name})

    return stage


def modelled_stage(desk: Desk) -> Stage:
    """The modelled time of the calls that were checked."""

    def stage(record: Record) -> StageResult:
        model = modelled if desk.choices.effort == "usual" else sketched
        return model(desk.task, record.candidate.direction, desk.seen, describe(desk.choices.gpu))

    return stage

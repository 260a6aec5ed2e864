"""The stages of each device in order. Adding a stage is adding a row."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from warpsmith.evaluation.stages import cuda
from warpsmith.evaluation.stages.desk import Desk
from warpsmith.evaluation.stages.sanitize import sanitizer_stage
from warpsmith.evaluation.stages.stages import Stage, compile_stage, modelled_stage, static_stage, virtual_stage
from warpsmith.machines.hardware.lease import Need


@dataclass(frozen=True)
class Row:
    """One stage: its name, how it is made for a candidate, how it needs the GPU; an early one needs no torch either."""

    name: str
    make: Callable[[Desk], Stage]
    gpu: Need = Need.NONE
    early: bool = False


STAGES: Mapping[str, tuple[Row, ...]] = {
    "vgpu": (
        Row("static", static_stage, early=True),
        Row("compile", compile_stage, early=True),
        Row("check", virtual_stage),
        Row("timing", modelled_stage),
    ),
    "cuda": (
        Row("static", static_stage, early=True),
        Row("compile", compile_stage, early=True),
        Row("virtual", cuda.virtual_stage),
        Row("check", cuda.check_stage, Need.SHARED),
        Row("sanitizer", sanitizer_stage, Need.SHARED),
        Row("record", cuda.record_stage, Need.SHARED),
        Row("timing", cuda.timing_stage, Need.ALONE),
    ),
}

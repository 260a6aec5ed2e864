"""The stages of each kind of machine, in order."""

from collections.abc import Mapping

from warpsmith.evaluation.stages import cuda
from warpsmith.evaluation.stages.common import compile_candidate, find_signs
from warpsmith.evaluation.stages.evaluation import Artifact, LaunchCount, PassedCalls, Stage
from warpsmith.evaluation.stages.sanitize import sanitize
from warpsmith.evaluation.stages.virtual import (
    PREVIEW,
    check_virtually,
    model_times,
    preview_virtually,
    screen_virtually,
)
from warpsmith.machines.cuda import CudaMachine
from warpsmith.machines.hardware import Need
from warpsmith.machines.rehearsed import RehearsedMachine
from warpsmith.machines.virtual import VirtualMachine

STATIC = Stage("static", find_signs, early=True)
COMPILE = Stage("compile", compile_candidate, early=True)
SCREEN = (STATIC, COMPILE, Stage(PREVIEW, screen_virtually, needs=(Artifact,)))  # of a verifier
ON_GPU = (
    STATIC,
    COMPILE,
    Stage(PREVIEW, preview_virtually, needs=(Artifact,)),
    Stage("check", cuda.check_on_gpu, needs=(Artifact,), uses=(LaunchCount,), gpu=Need.SHARED),
    Stage("sanitizer", sanitize, needs=(Artifact,), gpu=Need.SHARED),
    Stage("record", cuda.take_capture, needs=(cuda.CaptureAttempt,), gpu=Need.SHARED),
    Stage(
        "timing",
        cuda.time_replays,
        needs=(cuda.Capture,),
        uses=(cuda.BegunReplays, cuda.TorchStart),
        gpu=Need.ALONE,
        prepare=cuda.wait_for_torch,
    ),
)
STAGES: Mapping[str, tuple[Stage, ...]] = {
    VirtualMachine.kind: (
        STATIC,
        COMPILE,
        Stage("check", check_virtually, needs=(Artifact,)),
        Stage("timing", model_times, needs=(PassedCalls,)),
    ),
    CudaMachine.kind: ON_GPU,
    RehearsedMachine.kind: ON_GPU,
}

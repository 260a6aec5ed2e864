"""The only process that runs a candidate's code: a confined worker on the virtual GPU or on a real one."""

from typing import TYPE_CHECKING

from warpsmith.base import lazy_members

if TYPE_CHECKING:
    from warpsmith.machines.worker.ending import end_silent, executor_gone, without_answer
    from warpsmith.machines.worker.observation import Observation, ending_failure, executor_failure, status_failure
    from warpsmith.machines.worker.protocol import (
        CapturedOperations,
        FrameKind,
        MalformedReply,
        ReportedTensor,
        Timed,
        WorkerReply,
        call,
        go,
        parse,
        parse_recorded,
        parse_timed,
        play,
        share,
    )
    from warpsmith.machines.worker.run import (
        NOT_THERE,
        SOCKET_FD,
        SOCKET_VARIABLE,
        CudaSandbox,
        FakeSandbox,
        Sandbox,
        VirtualSandbox,
        fetch,
    )
    from warpsmith.machines.worker.session import Clocks, Mode, Session, Shown
    from warpsmith.machines.worker.tensors import to_raw, to_tensor, to_values
    from warpsmith.machines.worker.values import Raw, Value
    from warpsmith.machines.worker.worker import (
        CAPTURED_BYTES,
        EAGER,
        Conversation,
        environment,
        start,
        visible_gpu,
        worker_policy,
    )

__getattr__ = lazy_members(__name__)

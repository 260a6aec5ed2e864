"""Time a candidate on a GPU: captured calls, replays, two clocks, torch's baselines, statistics."""

from typing import TYPE_CHECKING

from warpsmith.base.lazy import lazy_members

if TYPE_CHECKING:
    from warpsmith.evaluation.timing.baseline_process import (
        BaselineHost,
        BaselineProcess,
        LongLivedHost,
        ResidentHost,
        open_baseline_host,
        preload_torch,
    )
    from warpsmith.evaluation.timing.baselines import (
        Baselines,
        baseline_path,
        baseline_request,
        load_baselines,
        measure_missing_modes,
        read_baselines,
        require_any_mode,
        store_baselines,
    )
    from warpsmith.evaluation.timing.capture import ARENA_ADDRESSES, CapturedCalls, capture_calls, replay_room
    from warpsmith.evaluation.timing.empty_kernel import EmptyKernels
    from warpsmith.evaluation.timing.sample import Examine, typical_flush_us
    from warpsmith.evaluation.timing.session import TimingSession
    from warpsmith.evaluation.timing.stage import Timer
    from warpsmith.evaluation.timing.subject import TimingSubject, draw_on

__getattr__ = lazy_members(__name__)

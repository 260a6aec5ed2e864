"""How fast: clocks, stop rule, baselines, statistics. Times are believed only as far as two clocks agree."""

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
    from warpsmith.evaluation.timing.baselines import Baselines, asked, believed, completed, keep, load, running, store
    from warpsmith.evaluation.timing.recording import PLACES, Recordings, record_calls, room_of
    from warpsmith.evaluation.timing.sample import Examine, usual_us
    from warpsmith.evaluation.timing.sitting import Sitting
    from warpsmith.evaluation.timing.stage import Timer
    from warpsmith.evaluation.timing.subject import TimingSubject
    from warpsmith.evaluation.timing.zeros import Zeros

__getattr__ = lazy_members(__name__)

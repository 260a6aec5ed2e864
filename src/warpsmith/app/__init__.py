"""What a person or a program asks for: one function a command, with a typed request and result. The Python API.

Every function that waits takes `watch`, which is called with typed events. `start(function, ...)` runs such a function
as a job that can be awaited, watched and cancelled.
"""

from typing import TYPE_CHECKING

from warpsmith.base.lazy import lazy_members

if TYPE_CHECKING:
    from warpsmith.app.ask_tell import AskedFiles, TellReport, TellRequest, ask, read_results, tell
    from warpsmith.app.audits import AuditEnded, AuditRequest, audit
    from warpsmith.app.baselines import USUAL_JOBS, BaselineCompiled, BaselineRequest, measure_baselines
    from warpsmith.app.batches import (
        BatchProgress,
        BatchRequest,
        BatchSummary,
        describe_line,
        evaluate_many,
    )
    from warpsmith.app.calibration import CalibrationRequest, KernelsVerified, calibrate
    from warpsmith.app.doctor import Part, PartState, diagnose
    from warpsmith.app.evaluators import evaluate_kernel
    from warpsmith.app.exports import Exported, ExportRequest, export
    from warpsmith.app.filtering import FilterOutcome, FilterRequest, FilterRow, TasksFound, filter_tasks
    from warpsmith.app.jobs import Job, JobCancelled, Watch, ignore, start
    from warpsmith.app.kernels import first_candidate, kernel_candidate, kernels_below, read_kernel
    from warpsmith.app.optimization import Optimized, SearchOpened, SearchReport, optimize, resume, run_search
    from warpsmith.app.pools import PoolReport, pool_status, start_pool, stop_pool
    from warpsmith.app.profiles import KernelRequest, Profiled, compile_kernel, profile, profile_record, run_virtual
    from warpsmith.app.prompt_files import ANSWER
    from warpsmith.app.regrading import RegradeRequest, regrade
    from warpsmith.app.reports import leaderboard, report
    from warpsmith.app.results import archive_records, read_records, records_below
    from warpsmith.app.runs import Best, best, list_runs, run_state, show_run, write_kernel
    from warpsmith.app.session import Session, open_session
    from warpsmith.evaluation import EvaluationConfig, evaluate
    from warpsmith.search import SearchConfig

__getattr__ = lazy_members(__name__)

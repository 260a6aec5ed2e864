"""Evaluate candidates: one, a batch, or a corpus of attacks and honest kernels."""

from typing import TYPE_CHECKING

from warpsmith.base import lazy_members

if TYPE_CHECKING:
    from warpsmith.evaluation.baselines import (
        BaselineRow,
        BaselineScope,
        Prepared,
        Wanted,
        measure_each,
        measure_flush_us,
        preparable,
        prepare,
        wanted,
    )
    from warpsmith.evaluation.batch import Ahead, BadLine, BatchLine, Results, read_requests, run_batch
    from warpsmith.evaluation.config import (
        AUTO,
        DEVICES,
        EvaluationConfig,
        check_modes,
        is_measured,
        machine_for,
        settle_device,
    )
    from warpsmith.evaluation.corpus import (
        Audit,
        CorpusFile,
        CorpusOutcome,
        audit,
        read_corpus,
        read_outcomes,
        untouched,
    )
    from warpsmith.evaluation.run import PreparedEvaluation, evaluate, grade

__getattr__ = lazy_members(__name__)

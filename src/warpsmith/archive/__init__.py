"""The SQL store of records, with lineage and elites."""

from typing import TYPE_CHECKING

from warpsmith.base import lazy_members

if TYPE_CHECKING:
    from warpsmith.archive.archive import Archive
    from warpsmith.archive.entry import ArchivedEvaluation, Note, OutcomeCount, QueryScope, Ranking
    from warpsmith.archive.summary import ArchivedKernel, RunStatus, RunSummary, describe_run_line, summarize
    from warpsmith.records import ModelCall, Run, RunState

__getattr__ = lazy_members(__name__)

"""The SQL store of records: runs, lineage, elites and cells as queries on it. Knows no kernel, no GPU and no model."""

from typing import TYPE_CHECKING

from warpsmith.base import lazy_members

if TYPE_CHECKING:
    from warpsmith.archive.archive import Archive
    from warpsmith.archive.entry import ArchivedEvaluation, Note, OutcomeCount, QueryScope, Ranking
    from warpsmith.archive.summary import Kernel, Standing, Summary, standing, summarize
    from warpsmith.records import ModelCall, Run, RunState

__getattr__ = lazy_members(__name__)

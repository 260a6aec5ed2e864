"""The SQL store of records: runs, lineage, elites and cells as queries on it. Knows no kernel, no GPU and no model."""

from warpsmith.archive.archive import Archive
from warpsmith.archive.entry import Entry, Note, Outcome, Ranking, Scope
from warpsmith.archive.summary import Kernel, Standing, Summary, standing, summarize
from warpsmith.records import ModelCall, Run, RunState

__all__ = [
    "Archive",
    "Entry",
    "Kernel",
    "ModelCall",
    "Note",
    "Outcome",
    "Ranking",
    "Run",
    "RunState",
    "Scope",
    "Standing",
    "Summary",
    "standing",
    "summarize",
]

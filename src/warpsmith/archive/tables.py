"""The archive's tables in their latest version; `schema` migrates older ones."""

from sqlalchemy import Column, Float, ForeignKey, Index, Integer, MetaData, String, Table, Text, UniqueConstraint

METADATA = MetaData()
HASH = String(32)

versions = Table(
    "schema_version",
    METADATA,
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("applied_s", Float, nullable=False),
)

# A model's own fields stay in its JSON body: a new field needs no migration of the table.
runs = Table(
    "runs",
    METADATA,
    Column("name", String(100), primary_key=True),
    Column("started_s", Float, nullable=False),
    Column("body", Text, nullable=False),  # the Run as JSON
)

# One row an evaluation. `run` is empty for what `eval` adds. All columns but those that `add` was given are copied from
# the body, for queries.
records = Table(
    "records",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("run", String(100), nullable=False),
    Column("entry", HASH, nullable=False),  # the hash of the body: the same evaluation is never there twice in a run
    Column("key", HASH, nullable=False),  # of (candidate, task version, options, hardware): evaluations to compare
    Column("candidate", HASH, nullable=False),
    Column("task", Text, nullable=False),
    Column("direction", String(16), nullable=False),
    Column("hardware", Text, nullable=False),
    Column("verdict", String(16), nullable=False),
    Column("reason", String(32), nullable=False),
    Column("stage", String(32), nullable=False),  # the one that ended the way, else the last
    Column("generation", Integer, nullable=False),
    Column("proposal", Text, nullable=False),
    Column("cost_usd", Float, nullable=False),
    Column("model", Text, nullable=False),
    Column("operator", Text, nullable=False),
    Column("cell", Text, nullable=False),
    Column("created_s", Float, nullable=False),
    Column("body", Text, nullable=False),  # the Record as JSON
    UniqueConstraint("run", "entry"),
    Index("records_run", "run", "id"),
    Index("records_task", "task", "direction", "id"),
    Index("records_candidate", "candidate", "id"),
    Index("records_key", "key"),
)

# An index, not a second truth: `records.score` of each record that has one. `schema.rescore` makes it anew.
scores = Table(
    "scores",
    METADATA,
    Column("record", ForeignKey("records.id"), primary_key=True),
    Column("kind", String(16), nullable=False),
    Column("value", Float, nullable=False),
    Column("low", Float),
    Column("high", Float),
    Column("cases", Integer, nullable=False),
    Column("basis", HASH, nullable=False),
    Index("scores_basis", "basis", "value"),
)

# A note with the same run, kind and name is replaced: a resumed run writes its notes again.
notes = Table(
    "notes",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("run", String(100), nullable=False),
    Column("kind", String(64), nullable=False),
    Column("name", Text, nullable=False),
    Column("created_s", Float, nullable=False),
    Column("body", Text, nullable=False),  # JSON
    UniqueConstraint("run", "kind", "name"),
    Index("notes_kind", "run", "kind", "id"),
)

# Costs are rows of their own, not columns of `records`: a call that brings no kernel costs money as well.
calls = Table(
    "calls",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("run", String(100), nullable=False),
    Column("model", Text, nullable=False),
    Column("operator", Text, nullable=False),
    Column("input_tokens", Integer, nullable=False),
    Column("output_tokens", Integer, nullable=False),
    Column("usd", Float, nullable=False),
    Column("seconds", Float, nullable=False),
    Column("calls", Integer, nullable=False),
    Column("created_s", Float, nullable=False),
    Index("calls_run", "run"),
)

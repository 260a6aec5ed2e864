"""The archive: runs, records, notes, and a search's queries."""

import json
import os
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from pydantic import JsonValue
from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from warpsmith.archive import queries
from warpsmith.archive.dialect import connect, insert_new, insert_or_replace
from warpsmith.archive.entry import (
    ArchivedEvaluation,
    Note,
    OutcomeCount,
    Payment,
    QueryScope,
    Ranking,
    Tags,
    read_entry,
    to_datetime,
)
from warpsmith.archive.faults import translate_opening_errors
from warpsmith.archive.holding import Holder, hold_run, is_held, refusal_message
from warpsmith.archive.rows import record_row, score_row
from warpsmith.archive.schema import migrate
from warpsmith.archive.store import Store
from warpsmith.archive.tables import calls, notes, records, runs, scores
from warpsmith.base import Home, UsageError, find_nearest
from warpsmith.records import Direction, ModelCall, Record, Run, RunState, Verdict, unproven_reason

HOLDER = "holder"  # the note that says who held a run last
PAGE = 200  # entries in memory at a time
RANKED = 16  # the same of those that are looked through for one that was evaluated fully: seldom more than a few


class Archive:
    """A store of records that survives any kill."""

    def __init__(self, url: URL, wait_s: float) -> None:
        self.url = url
        with translate_opening_errors(url):
            self._store = Store(connect(url, wait_s))
            try:
                migrate(self._store.engine)
            except BaseException:
                self.close()
                raise
        # Names of runs that exist. The empty name stands for evaluations outside of a run.
        self._known: set[str] = {""}

    @classmethod
    def open(cls, url: str | None = None, wait_s: float = 30.0) -> Self:
        """Open the archive at a SQLAlchemy URL, `WARPSMITH_ARCHIVE`, or the data folder's file.

        `sqlite://` is an archive in memory. `wait_s` bounds the wait for another writer.
        """
        text = url or os.environ.get("WARPSMITH_ARCHIVE") or f"sqlite:///{Home.locate().data / 'archive.sqlite'}"
        try:
            return cls(make_url(text), wait_s)
        except (ArgumentError, NoSuchModuleError) as error:
            raise UsageError(
                f"Archive {text!r} is no database URL: {error}. Write it as sqlite:////path/archive.sqlite or "
                "postgresql+psycopg://user@host/name."
            ) from None
        except ModuleNotFoundError as error:
            raise UsageError(
                f"Archive {make_url(text)!r} needs Python's {error.name}: pip install {error.name}."
            ) from None

    def close(self) -> None:
        """Close all connections."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit all writes of this thread, or none."""
        with self._store.write_transaction():
            yield

    # runs

    def start(self, run: Run) -> None:
        """Add a run. Raise UsageError if its name exists."""
        row = {"name": run.name, "started_s": run.started.timestamp(), "body": run.text()}
        # The insert decides atomically whether the name is free: two processes may start runs at the same time.
        with self._store.write_transaction() as connection:
            fresh = connection.execute(insert_new(connection, runs).returning(runs.c.name), row).scalar()
        if fresh is None:
            raise UsageError(f"Run {run.name} is there already. --resume goes on with it; --run names another.")
        self._known.add(run.name)

    def run(self, name: str) -> Run:
        """Return a run. Raise UsageError with near names."""
        with self._store.read_transaction() as connection:
            body = connection.execute(select(runs.c.body).where(runs.c.name == name)).scalar()
            known = [] if body is not None else [*connection.execute(select(runs.c.name)).scalars()]
        if body is None:
            near = find_nearest(name, known)
            hint = f"Did you mean {' or '.join(near)}?" if near else "warpsmith runs lists those that are."
            raise UsageError(f"Run {name} does not exist. {hint}")
        return Run.parse(body)

    def runs(self) -> tuple[Run, ...]:
        """Return all runs, the latest first."""
        with self._store.read_transaction() as connection:
            bodies = connection.execute(select(runs.c.body).order_by(runs.c.started_s.desc(), runs.c.name)).scalars()
            return tuple(Run.parse(body) for body in bodies)

    def finish(self, name: str, state: RunState, why: str = "", at: datetime | None = None) -> Run:
        """Store the end of a run; `RUNNING` and `WAITING` reopen it."""
        finished = None if state in (RunState.RUNNING, RunState.WAITING) else at or datetime.now(UTC)
        return self._change(name, {"state": state, "why": why, "finished": finished})

    def set(self, name: str, setting: str, text: str) -> Run:
        """Change one setting of a run."""
        with self.transaction():
            return self._change(name, {"settings": {**self.run(name).settings, setting: text}})

    @contextmanager
    def hold(self, name: str, command: str) -> Iterator[None]:
        """Hold a run as its only writer; `command` is shown to others.

        Raise UsageError while another process holds the run.
        """
        with ExitStack() as until:
            try:
                until.enter_context(hold_run(self._store.engine, name))
            except BlockingIOError:
                last = [Holder.model_validate(note.body) for note in self.notes(None, HOLDER) if note.name == name]
                raise UsageError(refusal_message(name, last[0] if last else None)) from None
            # Written after the lock is held, so the note names the present holder, or the last one.
            self.note(None, HOLDER, Holder(what=command).model_dump(mode="json"), name=name)
            yield

    def is_held(self, name: str) -> bool:
        """Return whether a process holds a run."""
        return is_held(self._store.engine, name)

    def _change(self, name: str, fields: Mapping[str, object]) -> Run:
        """Change fields of a run and return it."""
        # Read and write in one transaction, so that two changes of different fields lose neither.
        with self._store.write_transaction() as connection:
            run = self.run(name).model_copy(update=fields)
            connection.execute(update(runs).where(runs.c.name == name).values(body=run.text()))
        return run

    # records

    def add(
        self,
        run: str | None,
        record: Record,
        *,
        generation: int = 0,
        proposal: str = "",
        cost_usd: float = 0.0,
        model: str = "",
        operator: str = "",
        cell: str = "",
    ) -> str:
        """Add a record and return its entry's id. Adding the same record again changes nothing.

        Another evaluation of the same kernel is another entry.
        """
        tags = Tags(generation, proposal, cost_usd, model, operator, cell)
        row = record_row(self._run(run), record, tags, time.time())
        with self._store.write_transaction() as connection:
            # Only a new row returns its number, so a record that is added again gets no second score.
            statement = insert_new(connection, records).returning(records.c.id)
            number = connection.execute(statement, row).scalar()
            if number is not None and (scored := score_row(number, record)) is not None:
                connection.execute(insert(scores), scored)
        return str(row["entry"])

    def records(
        self,
        run: str | None = None,
        *,
        task: str | None = None,
        direction: Direction | None = None,
        verdict: Verdict | None = None,
        candidate: str | None = None,
        key: str | None = None,
        limit: int | None = None,
    ) -> Iterator[ArchivedEvaluation]:
        """Yield the entries of a scope in the order of adding, page by page.

        `run=""` selects the entries of `eval`.
        """
        query = queries.select_entries(QueryScope(run, task, direction, verdict, candidate, key))
        last, left = 0, limit
        while left is None or left > 0:
            size = PAGE if left is None else min(PAGE, left)
            # Each page is a transaction of its own: a slow consumer holds no snapshot, and new rows after `last` are
            # found.
            page = self._entries(query.where(records.c.id > last).limit(size))
            yield from page
            if len(page) < size:
                return
            last, left = page[-1].number, None if left is None else left - len(page)

    def count(self, run: str | None = None) -> int:
        """Return the number of entries."""
        statement = select(func.count()).select_from(records).where(*queries.scope_conditions(QueryScope(run)))
        with self._store.read_transaction() as connection:
            return int(connection.execute(statement).scalar_one())

    def outcomes(self, run: str) -> tuple[OutcomeCount, ...]:
        """Return a run's evaluation counts by stage, verdict and reason."""
        with self._store.read_transaction() as connection:
            rows = connection.execute(queries.select_outcomes(QueryScope(run)))
            return tuple(OutcomeCount.model_validate(dict(row._mapping)) for row in rows)

    # the best

    def rankings(
        self, run: str | None = None, *, task: str | None = None, direction: Direction | None = None
    ) -> tuple[Ranking, ...]:
        """Return the sets of comparable scores; `elites` and `best` use the first by default.

        Measured scores come before modelled ones, then more cases before fewer, then the larger set.
        """
        with self._store.read_transaction() as connection:
            rows = connection.execute(queries.select_rankings(QueryScope(run, task, direction)))
            return tuple(Ranking(row.basis, row.kind, row.cases, row.total) for row in rows)

    def elites(
        self,
        run: str | None = None,
        *,
        task: str | None = None,
        direction: Direction | None = None,
        basis: str | None = None,
        limit: int = 10,
    ) -> tuple[ArchivedEvaluation, ...]:
        """Return a ranking's best kernels by their last evaluations."""
        scope = QueryScope(run, task, direction)
        chosen = basis or self._basis(scope)
        return self._entries(queries.select_elites(scope, chosen, limit)) if chosen else ()

    def ranked_kernels(self, run: str) -> Iterator[ArchivedEvaluation]:
        """Yield a run's timed kernels, best first per ranking."""
        for ranking in self.rankings(run):
            for start in range(0, ranking.count, RANKED):
                yield from self._entries(queries.select_elites(QueryScope(run), ranking.basis, RANKED, start))

    def best_proven(self, run: str) -> ArchivedEvaluation | None:
        """Return a run's best fully evaluated kernel, or None without one.

        An evaluation of the best kernel outside the run counts too.
        """
        found = next((entry for entry in self.ranked_kernels(run) if not unproven_reason(entry.record)), None)
        first = next(iter(self.elites(run, limit=1)), None)
        if found is not None or first is None:
            return found
        # A user may evaluate a run's best kernel with `eval`; that record lies outside of the run and proves the kernel
        # as well.
        others = [one for one in self.records("", candidate=first.candidate) if not one.record.blameless]
        return (
            others[-1] if others and others[-1].score is not None and not unproven_reason(others[-1].record) else None
        )

    def best(self, run: str) -> ArchivedEvaluation | None:
        """Return a run's best kernel, fully evaluated first; or None."""
        return self.best_proven(run) or next(iter(self.elites(run, limit=1)), None)

    def lineage(self, candidate: str, run: str | None = None) -> tuple[ArchivedEvaluation, ...]:
        """Return a candidate and its ancestors, oldest first."""
        found: dict[str, ArchivedEvaluation] = {}
        wanted = frozenset({candidate})
        while wanted:
            entries = self._entries(queries.select_first_records(QueryScope(run), wanted))
            found |= {entry.candidate: entry for entry in entries}
            # Known kernels are left out, so a kernel that is its own ancestor ends the search.
            wanted = frozenset(name for entry in entries for name in entry.parents if name not in found)
        return tuple(sorted(found.values(), key=lambda entry: entry.number))

    # what stands beside

    def note(self, run: str | None, kind: str, body: JsonValue, name: str = "") -> str:
        """Store or replace JSON by run, kind and name."""
        named = name or uuid.uuid4().hex
        # allow_nan=False: NaN is no JSON, and PostgreSQL or another reader would refuse the note later.
        text = json.dumps(body, ensure_ascii=False, allow_nan=False)
        row = {"run": self._run(run), "kind": kind, "name": named, "created_s": time.time(), "body": text}
        with self._store.write_transaction() as connection:
            connection.execute(insert_or_replace(connection, notes, ("run", "kind", "name"), ("body",)), row)
        return named

    def notes(self, run: str | None, kind: str) -> tuple[Note, ...]:
        """Return a kind's notes; None selects notes without run."""
        chosen = select(notes).where(notes.c.run == (run or ""), notes.c.kind == kind).order_by(notes.c.id)
        with self._store.read_transaction() as connection:
            rows = connection.execute(chosen)
            return tuple(Note(row.name, row.kind, json.loads(row.body), to_datetime(row.created_s)) for row in rows)

    def delete_note(self, run: str | None, kind: str, name: str) -> None:
        """Delete a note if it exists."""
        gone = delete(notes).where(notes.c.run == (run or ""), notes.c.kind == kind, notes.c.name == name)
        with self._store.write_transaction() as connection:
            connection.execute(gone)

    def spend(self, run: str | None, call: ModelCall) -> None:
        """Store the cost of one call of a model."""
        row = {"run": self._run(run), "created_s": time.time(), **call.model_dump()}
        with self._store.write_transaction() as connection:
            connection.execute(insert(calls), row)

    def spent(self, run: str) -> tuple[ModelCall, ...]:
        """Sum a run's model calls by model and operator."""
        names = ("input_tokens", "output_tokens", "usd", "seconds", "calls")
        sums = [func.sum(calls.c[name]).label(name) for name in names]
        by = (calls.c.model, calls.c.operator)
        with self._store.read_transaction() as connection:
            rows = connection.execute(select(*by, *sums).where(calls.c.run == run).group_by(*by).order_by(*by))
            return tuple(ModelCall.model_validate(dict(row._mapping)) for row in rows)

    def payments(self, run: str) -> tuple[Payment, ...]:
        """Return a run's model calls by time."""
        chosen = select(calls.c.usd, calls.c.created_s).where(calls.c.run == run).order_by(calls.c.created_s)
        with self._store.read_transaction() as connection:
            return tuple(Payment(row.usd, to_datetime(row.created_s)) for row in connection.execute(chosen))

    def _run(self, name: str | None) -> str:
        """Return an existing run's name, "" for None."""
        if name and name not in self._known:
            self.run(name)
            self._known.add(name)
        return name or ""

    def _basis(self, scope: QueryScope) -> str | None:
        """Return the basis of the first ranking, or None."""
        with self._store.read_transaction() as connection:
            row = connection.execute(queries.select_rankings(scope).limit(1)).first()
            return None if row is None else str(row.basis)

    def _entries(self, query: queries.Query) -> tuple[ArchivedEvaluation, ...]:
        """Return the entries of a query."""
        with self._store.read_transaction() as connection:
            return tuple(read_entry(row) for row in connection.execute(query))

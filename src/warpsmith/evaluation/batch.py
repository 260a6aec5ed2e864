"""Evaluation of a batch: JSON lines in, JSON lines out."""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any, TypeAlias

from pydantic import ValidationError

from warpsmith.base import (
    RECORDS_BYTES,
    UsageError,
    WarpsmithError,
    check_regular,
    digest,
    digest_json,
    explain_write_errors,
    read_file,
    read_text,
)
from warpsmith.evaluation.config import EvaluationConfig, settle_device
from warpsmith.evaluation.processes import GradeFor, judges_for, pool_of_judges
from warpsmith.evaluation.run import checked
from warpsmith.languages import find_language, language_of
from warpsmith.records import Candidate, Direction, Model, Record, Verdict, describe_error
from warpsmith.tasks.suite import folders

Judge: TypeAlias = Callable[[Candidate, EvaluationConfig], Record]
LINE_BYTES = 4 << 20  # of one line: a source has at most one MiB


class BadLine(Model):
    """The output line of a candidate without an evaluation."""

    error: str
    line: int
    input: str  # the digest of the line


@dataclass(frozen=True)
class Folder:
    """The folder of a batch's kernel files."""

    path: Path
    outside: bool = False

    def read(self, name: str) -> str:
        """Return a kernel's text; raise UsageError outside the folder."""
        # Links are resolved first. The text becomes part of a record, so a batch of a stranger must not
        # copy a private file into its results.
        place = self.path / name
        if not self.outside and not _resolved(place).is_relative_to(_resolved(self.path)):
            raise UsageError(
                f"{place} lies outside of the batch's folder {self.path}. Move it there, or give --allow-outside."
            )
        return read_text(place)


class Early(Model):
    """A result that is ready before earlier ones."""

    input: str
    line: str


@dataclass(frozen=True)
class BatchLine:
    """One line of a batch: its candidate or error."""

    number: int
    text: str
    candidate: Candidate | None
    error: str = ""

    def key(self, config: EvaluationConfig) -> str:
        """Return the key that matches this line with its result."""
        return digest(self.text) if self.candidate is None else _key(self.candidate, config.stored(0).model_dump())


def read_requests(path: Path, outside: bool = False) -> list[BatchLine]:
    """Return the candidates of a file, with errors as lines."""
    # A line that is no candidate does not end the batch: the results have one line for each request, in
    # the same order.
    lines = [line.decode("utf-8", "replace").strip() for line in read_file(path, RECORDS_BYTES).split(b"\n")]
    folder = Folder(path.parent, outside)
    return [_request(number, line, folder) for number, line in enumerate(lines, 1) if line]


def run_batch(
    requests: Sequence[BatchLine],
    config: EvaluationConfig,
    jobs: int,
    judge: Judge | None = None,
    ahead: "Ahead | None" = None,
    grade_for: GradeFor = judges_for,
) -> Iterator[str]:
    """Yield a result line for each request, in order."""
    # At most twice `jobs` requests are submitted ahead. The generator waits for the oldest one, so memory
    # stays bounded however slow the reader is.
    fixed = checked(config)
    with pool_of_judges(fixed, min(jobs, len(requests)), grade_for) as (threads, grade):
        line, waiting = partial(_line, config=fixed, judge=judge or grade, ahead=ahead), iter(requests)
        flying = [threads.submit(line, one) for one in islice(waiting, 2 * jobs)]
        while flying:
            yield flying.pop(0).result()
            flying += [threads.submit(line, one) for one in islice(waiting, 1)]


class Results:
    """A file of results that grows by whole lines."""

    # A crash may leave half a line. It is cut off when the file is opened, so that the next append begins
    # a line.

    def __init__(self, path: Path) -> None:
        self.path = path
        check_regular(path)
        with explain_write_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.open("ab").close()  # raises before the work if the file cannot be written
        raw = read_file(path, RECORDS_BYTES)
        whole = raw[: raw.rfind(b"\n") + 1]
        if whole != raw:
            os.truncate(path, len(whole))
        self.lines = [line.decode("utf-8", "replace") for line in whole.split(b"\n") if line.strip()]

    def left(self, requests: Sequence[BatchLine], config: EvaluationConfig) -> Sequence[BatchLine]:
        """Return requests without a result; raise UsageError on a mismatch."""
        fixed = config.replace(device=settle_device(config.device))
        for place, (line, request) in enumerate(zip(self.lines, requests, strict=False), 1):
            if not _is_for(line, request, fixed):
                raise UsageError(
                    f"Line {place} of {self.path} is not the result of line {request.number} of the batch with these "
                    "options. Name another --out, or remove the file."
                )
        if len(self.lines) > len(requests):
            raise UsageError(
                f"{self.path} has {len(self.lines)} results; the batch has {len(requests)} candidates. Name another "
                "--out, or remove the file."
            )
        return requests[len(self.lines) :]

    def add(self, line: str) -> None:
        """Append one line by one write and sync it."""
        # An unbuffered append of one write is never interleaved with another process; fsync makes the
        # line survive a power failure.
        with explain_write_errors(self.path), self.path.open("ab", buffering=0) as out:
            out.write(line.encode() + b"\n")
            os.fsync(out.fileno())


class Ahead:
    """A file of results that wait for earlier ones."""

    # Results are written in order. Without this file a kill would lose every finished evaluation behind a
    # slow one.

    def __init__(self, results: Results) -> None:
        self._path = results.path.with_name(f"{results.path.name}.ahead")
        self._file, self._adding = Results(self._path), Lock()
        early = [one for line in self._file.lines if isinstance(one := Early.read(line), Early)]
        # A result may stand in both files after a kill between two writes. Lines that the result file
        # holds already are subtracted, one for one.
        done = Counter(results.lines)
        self._found: dict[tuple[str, str], list[str]] = {}
        for one in early:
            done[one.line] -= 1
            if done[one.line] < 0:
                self._found.setdefault((one.input, _key_of_line(one.line)), []).append(one.line)

    def take(self, request: BatchLine, config: EvaluationConfig) -> str | None:
        """Return an early result of a request, or None."""
        with self._adding:
            found = self._found.get((digest(request.text), request.key(config)))
            return found.pop() if found else None

    def add(self, request: BatchLine, line: str) -> None:
        """Store a result that is ready early."""
        with self._adding:
            self._file.add(Early(input=digest(request.text), line=line).text())

    def over(self) -> None:
        """Delete the file after the last result."""
        self._path.unlink(missing_ok=True)


def _request(number: int, text: str, folder: Folder) -> BatchLine:
    """Return one parsed line, with the error if unusable."""
    if len(text) > LINE_BYTES:
        return BatchLine(number, text, None, f"line of {len(text)} characters; at most {LINE_BYTES} are read")
    try:
        found = json.loads(text)
        json.dumps(found, ensure_ascii=False).encode()  # half of a surrogate pair is a string that nothing can store
        if not isinstance(found, dict):
            return BatchLine(number, text, None, f"a {type(found).__name__}, not a JSON object")
        return BatchLine(number, text, Candidate.model_validate(_completed(found, folder)))
    except ValidationError as error:
        return BatchLine(number, text, None, f"no candidate: {describe_error(error)}")
    except UsageError as error:
        return BatchLine(number, text, None, str(error))
    except UnicodeEncodeError:
        return BatchLine(number, text, None, "a string with half of a surrogate pair, which UTF-8 cannot hold")
    except (ValueError, RecursionError) as error:  # a number of thousands of digits is a plain ValueError
        return BatchLine(number, text, None, f"not JSON: {error}")


def _completed(found: dict[str, Any], folder: Folder) -> dict[str, Any]:
    """Return a candidate's fields, completed; raise UsageError if impossible."""
    path = found.pop("path", None)
    if isinstance(path, str) and "source" not in found:
        found["source"] = folder.read(path)
    if "source" not in found:
        raise UsageError("no candidate: it has neither path nor source. Give it one of them.")
    if isinstance(found.get("source"), str):
        suffix = Path(path).suffix if isinstance(path, str) else ""
        find_language(str(found.setdefault("language", language_of(found["source"], suffix))))
    return {"direction": Direction.from_stem(Path(path).stem if isinstance(path, str) else ""), **found}


def _resolved(path: Path) -> Path:
    """Return a path without links; raise UsageError if impossible."""
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError) as error:  # a loop of links, a zero byte
        raise UsageError(f"{str(path)!r} is no path: {error}.") from None


def _line(request: BatchLine, config: EvaluationConfig, judge: Judge, ahead: Ahead | None) -> str:
    """Return a record or an error as one line."""
    # A fault is not stored early: at an interrupt every running evaluation ends as one, and the next run
    # must evaluate it again.
    if request.candidate is None:
        return _malformed(request, request.error)
    if ahead and (found := ahead.take(request, config)):
        return found
    try:
        record = judge(request.candidate, config)
    except WarpsmithError as error:
        return _malformed(request, str(error))
    if ahead and record.verdict is not Verdict.FAULT:
        ahead.add(request, record.text())
    return record.text()


def _malformed(request: BatchLine, why: str) -> str:
    """Return the output line of an unusable request."""
    error = f"Line {request.number}: {why}"
    return BadLine(error=error, line=request.number, input=digest(request.text)).text()


def _is_for(line: str, request: BatchLine, config: EvaluationConfig) -> bool:
    """Return whether a result belongs to a request."""
    # The name of a foreign task may be a path, which differs between machines; only names of suite tasks
    # are compared.
    record, asked = Record.read(line), request.candidate
    if isinstance(record, Record) and asked is not None and asked.task in folders():
        return record.candidate.task == asked.task and _key_of_line(line) == request.key(config)
    return _key_of_line(line) in (request.key(config), digest(request.text))


def _key_of_line(line: str) -> str:
    """Return a result's key; empty for an unreadable line."""
    record = Record.read(line)
    if isinstance(record, Record):
        return _key(record.candidate, record.options.model_dump())
    refused = BadLine.read(line)
    return refused.input if isinstance(refused, BadLine) else ""


def _key(candidate: Candidate, options: dict[str, Any]) -> str:
    """Return a key of source and options."""
    # Without the task's name, which may be a path, and without the seed, which is drawn anew for each
    # evaluation.
    chosen = {name: value for name, value in options.items() if name != "seeds"}
    macros = dict(candidate.macros)
    return digest_json([candidate.direction, candidate.language, macros, candidate.source, chosen])

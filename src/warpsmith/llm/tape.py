"""The transcript file: a header, then one JSON line per exchange."""

import logging
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import ValidationError

from warpsmith.base import RECORDS_BYTES, MachineError, UsageError, read_file
from warpsmith.llm.errors import ModelError
from warpsmith.llm.model import Frozen, ModelAnswer, Prompt

LOG = logging.getLogger(__name__)
T = TypeVar("T", bound=Frozen)


class TranscriptModel(Frozen):
    """A recorded model and its weight in the ensemble."""

    name: str
    weight: float = 1.0


class TranscriptHeader(Frozen):
    """The first line of a transcript."""

    format: Literal["warpsmith model traffic"] = "warpsmith model traffic"
    version: Literal[1] = 1
    voices: tuple[TranscriptModel, ...] = ()


class RecordedFailure(Frozen):
    """A `ModelError` as data: the name of its class, and its message."""

    kind: str
    message: str

    @classmethod
    def of(cls, error: ModelError) -> "RecordedFailure":
        """Return an error as data."""
        return cls(kind=type(error).__name__, message=str(error))


class Exchange(Frozen):
    """One prompt, the model, and the answer or failure."""

    model: str
    prompt: Prompt
    answer: ModelAnswer | None = None
    failure: RecordedFailure | None = None


class TranscriptFile:
    """A transcript open for appending, one write per line."""

    def __init__(self, path: Path, voices: Sequence[TranscriptModel] = ()) -> None:
        self.path = path
        self._broken = False
        self._lock = threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            fresh = not path.exists() or path.stat().st_size == 0
        except OSError as error:
            raise UsageError(f"Recording {path} cannot be written: {error.strerror}. Give another path.") from None
        # A resumed run appends to its transcript; only a new file gets a header.
        if fresh:
            self._write(TranscriptHeader(voices=tuple(voices)).model_dump_json())
        else:
            read_transcript(path)  # never append to a file that is something else
            self._drop_partial_line()

    def add(self, exchange: Exchange) -> None:
        """Append one exchange; stop recording if the disk is full."""
        if self._broken:
            return
        try:
            self._write(exchange.model_dump_json())
        except MachineError as error:
            self._broken = True
            LOG.error("%s from here on nothing is recorded", error)

    def _write(self, line: str) -> None:
        """Write one line."""
        raw = line.encode() + b"\n"
        try:
            with self._lock:
                # O_APPEND places each write at the end of the file. Mode 0600: prompts and answers may be confidential.
                handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK, 0o600)
                try:
                    written = os.write(handle, raw)
                finally:
                    os.close(handle)
        except OSError as error:
            raise MachineError(f"Recording {self.path} cannot be written: {error.strerror}.") from None
        if written < len(raw):
            raise MachineError(f"Recording {self.path} took {written} of {len(raw)} bytes: the disk is full.")

    def _drop_partial_line(self) -> None:
        """Cut a partial last line."""
        # Only the text after the last newline is cut; every whole line stays.
        raw = read_file(self.path, RECORDS_BYTES)
        if not raw.endswith(b"\n"):
            os.truncate(self.path, raw.rfind(b"\n") + 1)


def read_transcript(path: Path) -> tuple[TranscriptHeader, tuple[Exchange, ...]]:
    """Read a transcript. Raise UsageError for a bad line."""
    lines = read_file(path, RECORDS_BYTES).split(b"\n")
    if lines.pop():  # every whole line ends in a newline
        LOG.warning("%s ends in half a line, which is left out: its writer was killed", path)
    if not lines:
        raise UsageError(f"Recording {path} is empty. Make one with --record {path}.")
    header = _parse_line(TranscriptHeader, lines[0], path, 1)
    return header, tuple(_parse_line(Exchange, line, path, place) for place, line in enumerate(lines[1:], 2))


def _parse_line(form: type[T], line: bytes, path: Path, place: int) -> T:
    """Parse one line. Raise an error with its place."""
    try:
        return form.model_validate_json(line)
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        raise UsageError(
            f"Line {place} of {path} is not part of a recording ({reason}). Make one with --record."
        ) from None

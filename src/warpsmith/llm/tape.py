"""The file of recorded model traffic: one JSON line an exchange, under a header. Holds no key."""

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


class Voice(Frozen):
    """A model that took part, and its weight in the ensemble."""

    name: str
    weight: float = 1.0


class TranscriptHeader(Frozen):
    """The first line of a recording."""

    format: Literal["warpsmith model traffic"] = "warpsmith model traffic"
    version: Literal[1] = 1
    voices: tuple[Voice, ...] = ()


class Failure(Frozen):
    """A `ModelError` as data: the name of its class, and its message."""

    kind: str
    message: str

    @classmethod
    def of(cls, error: ModelError) -> "Failure":
        """The failure an error stands for."""
        return cls(kind=type(error).__name__, message=str(error))


class Exchange(Frozen):
    """One prompt, who was asked, and what came of it."""

    model: str
    prompt: Prompt
    answer: ModelAnswer | None = None
    failure: Failure | None = None


class Tape:
    """A recording being written. Each line goes out in one write, so a kill loses at most what was in flight."""

    def __init__(self, path: Path, voices: Sequence[Voice] = ()) -> None:
        self.path = path
        self._broken = False
        self._lock = threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            fresh = not path.exists() or path.stat().st_size == 0
        except OSError as error:
            raise UsageError(f"Recording {path} cannot be written: {error.strerror}. Give another path.") from None
        if fresh:
            self._write(TranscriptHeader(voices=tuple(voices)).model_dump_json())
        else:
            read_tape(path)  # never append to a file that is something else
            self._mend()

    def add(self, exchange: Exchange) -> None:
        """Append one exchange. What an answer cost is more than its recording: a full disk ends only the latter."""
        if self._broken:
            return
        try:
            self._write(exchange.model_dump_json())
        except MachineError as error:
            self._broken = True
            LOG.error("%s from here on nothing is recorded", error)

    def _write(self, line: str) -> None:
        raw = line.encode() + b"\n"
        try:
            with self._lock:
                handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK, 0o600)
                try:
                    written = os.write(handle, raw)
                finally:
                    os.close(handle)
        except OSError as error:
            raise MachineError(f"Recording {self.path} cannot be written: {error.strerror}.") from None
        if written < len(raw):
            raise MachineError(f"Recording {self.path} took {written} of {len(raw)} bytes: the disk is full.")

    def _mend(self) -> None:
        """Cut half a line that a kill left at the end."""
        raw = read_file(self.path, RECORDS_BYTES)
        if not raw.endswith(b"\n"):
            os.truncate(self.path, raw.rfind(b"\n") + 1)


def read_tape(path: Path) -> tuple[TranscriptHeader, tuple[Exchange, ...]]:
    """A recording as it lies on disk; a `UsageError` names the line that is not one."""
    lines = read_file(path, RECORDS_BYTES).split(b"\n")
    if lines.pop():  # every whole line ends in a newline
        LOG.warning("%s ends in half a line, which is left out: its writer was killed", path)
    if not lines:
        raise UsageError(f"Recording {path} is empty. Make one with --record {path}.")
    header = _parsed(TranscriptHeader, lines[0], path, 1)
    return header, tuple(_parsed(Exchange, line, path, place) for place, line in enumerate(lines[1:], 2))


def _parsed(form: type[T], line: bytes, path: Path, place: int) -> T:
    try:
        return form.model_validate_json(line)
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        raise UsageError(
            f"Line {place} of {path} is not part of a recording ({reason}). Make one with --record."
        ) from None

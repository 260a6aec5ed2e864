"""The content-addressed store of artifacts: whole or absent, checked when read, bounded in size."""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from warpsmith.base import digest, explain_write_errors, hold_lock
from warpsmith.languages.nvcc.entries import EntryPoint
from warpsmith.records import Model, StageResult

KEPT = "result.json"
YOUNG_S = 600  # an entry in use moments ago is not evicted: somebody may be about to load it


class CachedCompilation(Model):
    """What is stored beside an artifact: the result, and the digest of the artifact's bytes ("" when there is none)."""

    result: StageResult
    artifact: str
    entries: tuple[EntryPoint, ...] = ()


@dataclass(frozen=True)
class Cache:
    """Entries are folders named by key. A reader takes no lock; a writer holds the key's."""

    root: Path
    limit_bytes: int

    def load(self, key: str) -> tuple[CachedCompilation, Path | None] | None:
        """A whole entry, or None; a damaged one is as good as none."""
        folder = self.root / key
        try:
            seal, _, text = (folder / KEPT).read_text().partition("\n")
            kept = CachedCompilation.parse(text)
            path = folder / f"{kept.artifact}.so" if kept.artifact else None
            whole = seal == digest(text) and (path is None or digest(path.read_bytes()) == kept.artifact)
            if whole:
                os.utime(folder)
        except (OSError, ValidationError, UnicodeDecodeError):
            return None
        return (kept, path) if whole else None

    @contextmanager
    def writing(self, key: str) -> Iterator[None]:
        """Hold a key, so that two processes do not make the same entry at once."""
        lock = self.root / ".locks" / key
        with explain_write_errors(lock):
            lock.parent.mkdir(parents=True, exist_ok=True)
        with hold_lock(lock):
            yield

    def store(
        self, key: str, result: StageResult, artifact: bytes | None, entries: tuple[EntryPoint, ...] = ()
    ) -> tuple[CachedCompilation, Path | None]:
        """Put an entry in place by one rename, over a damaged one if there is one."""
        name = digest(artifact) if artifact is not None else ""
        kept = CachedCompilation(result=result, artifact=name, entries=entries)
        text = kept.text()
        folder = self.root / key
        with explain_write_errors(folder):
            self.root.mkdir(parents=True, exist_ok=True)
            scratch = Path(tempfile.mkdtemp(dir=self.root, prefix=".new-"))
            (scratch / KEPT).write_text(f"{digest(text)}\n{text}")
            if artifact is not None:
                (scratch / f"{kept.artifact}.so").write_bytes(artifact)
            shutil.rmtree(folder, ignore_errors=True)
            scratch.rename(folder)
        self.trim()
        return kept, folder / f"{kept.artifact}.so" if artifact is not None else None

    def trim(self) -> None:
        """Drop the entries that were used longest ago until the rest fits."""
        entries = sorted(self._entries(), reverse=True)
        now, total = time.time(), 0
        for used, size, folder in entries:
            total += size
            if total > self.limit_bytes and now - used > YOUNG_S:
                shutil.rmtree(folder, ignore_errors=True)
                with suppress(FileNotFoundError):
                    (self.root / ".locks" / folder.name).unlink()

    def _entries(self) -> Iterator[tuple[float, int, Path]]:
        for entry in os.scandir(self.root):
            with suppress(OSError):  # another process may drop it while we look
                if entry.name != ".locks" and entry.is_dir():
                    size = sum(file.stat().st_size for file in os.scandir(entry))
                    yield entry.stat().st_mtime, size, Path(entry.path)

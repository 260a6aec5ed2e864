"""The artifact cache: whole entries by content hash, checked on reading."""

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
YOUNG_S = 600  # a younger entry stays: another process may be about to load its artifact


class CachedCompilation(Model):
    """Metadata of a cached artifact."""

    result: StageResult
    artifact: str
    entries: tuple[EntryPoint, ...] = ()


@dataclass(frozen=True)
class Cache:
    """A cache of folders by key; readers take no lock."""

    root: Path
    limit_bytes: int

    def load(self, key: str) -> tuple[CachedCompilation, Path | None] | None:
        """Load a whole entry, or return None for a missing or damaged one."""
        folder = self.root / key
        try:
            # The first line is the digest of the rest, so a file that a kill or a full disk cut off does not match.
            seal, _, text = (folder / KEPT).read_text().partition("\n")
            kept = CachedCompilation.parse(text)
            path = folder / f"{kept.artifact}.so" if kept.artifact else None
            # The artifact's digest is checked on every load: a damaged library must not be loaded into a worker.
            whole = seal == digest(text) and (path is None or digest(path.read_bytes()) == kept.artifact)
            if whole:
                # The time of the folder is the time of the last use, by which `trim` chooses.
                os.utime(folder)
        except (OSError, ValidationError, UnicodeDecodeError):
            return None
        return (kept, path) if whole else None

    @contextmanager
    def lock_entry(self, key: str) -> Iterator[None]:
        """Hold a key's lock."""
        lock = self.root / ".locks" / key
        with explain_write_errors(lock):
            lock.parent.mkdir(parents=True, exist_ok=True)
        with hold_lock(lock):
            yield

    def store(
        self, key: str, result: StageResult, artifact: bytes | None, entries: tuple[EntryPoint, ...] = ()
    ) -> tuple[CachedCompilation, Path | None]:
        """Store an entry by one rename."""
        name = digest(artifact) if artifact is not None else ""
        kept = CachedCompilation(result=result, artifact=name, entries=entries)
        text = kept.text()
        folder = self.root / key
        with explain_write_errors(folder):
            self.root.mkdir(parents=True, exist_ok=True)
            # The scratch folder lies in the cache: rename is atomic within one file system only.
            scratch = Path(tempfile.mkdtemp(dir=self.root, prefix=".new-"))
            (scratch / KEPT).write_text(f"{digest(text)}\n{text}")
            if artifact is not None:
                (scratch / f"{kept.artifact}.so").write_bytes(artifact)
            # A rename is atomic: a reader finds no folder or a whole one, never a part.
            shutil.rmtree(folder, ignore_errors=True)
            scratch.rename(folder)
        self.trim()
        return kept, folder / f"{kept.artifact}.so" if artifact is not None else None

    def trim(self) -> None:
        """Delete the least recently used entries above the byte limit."""
        entries = sorted(self._entries(), reverse=True)
        now, total = time.time(), 0
        # Newest first: entries are added up until the limit, and the older rest goes.
        for used, size, folder in entries:
            total += size
            if total > self.limit_bytes and now - used > YOUNG_S:
                shutil.rmtree(folder, ignore_errors=True)
                with suppress(FileNotFoundError):
                    (self.root / ".locks" / folder.name).unlink()

    def _entries(self) -> Iterator[tuple[float, int, Path]]:
        """Yield time of use, size and folder of each entry."""
        for entry in os.scandir(self.root):
            with suppress(OSError):  # another process may drop it while we look
                if entry.name != ".locks" and entry.is_dir():
                    size = sum(file.stat().st_size for file in os.scandir(entry))
                    yield entry.stat().st_mtime, size, Path(entry.path)

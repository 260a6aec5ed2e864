"""Confined reading of a compilation's untrusted files."""

import sys
from collections.abc import Mapping
from pathlib import Path

from pydantic import Field

import warpsmith
from warpsmith.base import HarnessError
from warpsmith.isolation import Policy, ProcessLimits, run, system_paths
from warpsmith.languages.nvcc.diagnose import Diagnostic
from warpsmith.languages.nvcc.entries import EntryPoint, to_entries
from warpsmith.languages.nvcc.options import ARTIFACT, DEPENDENCIES
from warpsmith.records import Failure, KernelResources, Model, Reason

PACKAGES = Path(warpsmith.__file__).parents[1]
# -I and -S leave out the user's paths and all site packages: the reader starts quickly and can import only our package.
START = "import sys; sys.path.append({!r}); from warpsmith.languages.nvcc.reader import main; main()"
# Tighter than the compiler's own: an ordinary compilation is read in 0.1 s and 100 MiB.
LIMITS = ProcessLimits(
    wall_s=120, cpu_s=20, memory_bytes=2 << 30, processes=8, open_files=64, file_bytes=1 << 20, output_bytes=4 << 20
)


class Reading(Model):
    """Parsed output of a compilation, or its error."""

    diagnostics: tuple[Diagnostic, ...] = ()
    files: tuple[str, ...] | None = None
    undefined: tuple[str, ...] = ()
    needed: tuple[str, ...] = ()
    externs: tuple[str, ...] = ()
    entries: Mapping[str, str] = Field(default_factory=dict)
    kernels: Mapping[str, dict[str, int]] = Field(default_factory=dict)
    exceeded: str = ""
    malformed: str = ""

    @property
    def entry_points(self) -> tuple[EntryPoint, ...]:
        """Entry points of the artifact."""
        return to_entries(self.entries)

    @property
    def resources(self) -> tuple[KernelResources, ...]:
        """Resources of each kernel from ptxas."""
        return tuple(KernelResources(name=name, **row) for name, row in self.kernels.items())

    def failure(self) -> Failure | None:
        """Return the failure for an unreadable result, or None."""
        if self.exceeded:
            return Failure(Reason.COMPILE_LIMIT, f"The compilation's result is not read: {self.exceeded}.")
        if self.malformed:
            detail = f"The artifact is no library that can be read: {self.malformed}. Leave its tables to the linker."
            return Failure(Reason.COMPILE_ERROR, detail)
        return None


def read_confined(folder: Path, said: str, has_artifact: bool, limits: ProcessLimits = LIMITS) -> Reading | Failure:
    """Return a compilation's reading, or a failure beyond the limits."""
    policy = Policy(read=(*system_paths(), folder), limits=limits, cwd=folder)
    words = [sys.executable, "-I", "-S", "-c", START.format(str(PACKAGES)), DEPENDENCIES]
    ended = run([*words, *([ARTIFACT] if has_artifact else [])], policy, stdin=said.encode(errors="replace"))
    found = Reading.read(ended.stdout) if ended.ok else ""
    if isinstance(found, Reading):
        return found
    if ended.stopped is None and ended.signal is None:  # it answers whatever it reads, so it did not come to that
        tail = ended.stderr.decode(errors="replace").strip()[-500:]
        raise HarnessError(f"The process that reads artifacts does not work here: {found or tail}")
    return Failure(
        Reason.COMPILE_LIMIT, f"The compilation's result was not read within its limits: {ended.describe(policy)}."
    )

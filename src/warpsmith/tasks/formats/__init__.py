"""Task formats: our own, robust-kbench, KernelBench and a user's modules."""

from typing import TYPE_CHECKING

from warpsmith.base.lazy import lazy_members

if TYPE_CHECKING:
    from warpsmith.tasks.formats.cnames import identifier, identifiers
    from warpsmith.tasks.formats.manifest import ELEMENTS
    from warpsmith.tasks.formats.own import MANIFEST, OwnProgram, read_task
    from warpsmith.tasks.formats.programs import program_for
    from warpsmith.tasks.formats.signature import backward_signature
    from warpsmith.tasks.formats.target import ORIGINS, TaskFormat, TaskTarget, find, find_all, version_of

__getattr__ = lazy_members(__name__)

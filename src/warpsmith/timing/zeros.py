"""What does not depend on a candidate: the null candidate's clocks and the floor of this GPU, measured once an hour."""

import time
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path

from pydantic import ValidationError

from warpsmith.base import Home, digest, write_atomic
from warpsmith.compile import Toolchain
from warpsmith.records import Ceilings, Model
from warpsmith.sandbox.worker import worker
from warpsmith.timing.null import Form, l2_bytes, measure_nulls
from warpsmith.timing.rules import Floor
from warpsmith.timing.sample import Null

USUAL = tuple(Form(launches, results) for launches in (1, 2) for results in (1, 2, 3))
OLD_S = 3600.0
BOOT = Path("/proc/sys/kernel/random/boot_id")
Measure = Callable[[Toolchain, Sequence[Form]], dict[Form, Null]]


class Kept(Model):
    """The zeros that processes of one hour share."""

    when: float
    nulls: tuple[tuple[Form, Null], ...]


class Zeros:
    """Asked for by whoever has the GPU alone; so only one process measures, and the others find what it kept."""

    def __init__(self, toolchain: Toolchain, ceilings: Ceilings, measure: Measure = measure_nulls) -> None:
        self.toolchain, self._ceilings, self._measure = toolchain, ceilings, measure
        self._nulls: dict[Form, Null] = {}

    @cached_property
    def floor(self) -> Floor:
        """No call is shorter than one launch."""
        return Floor(self._ceilings, self.null(Form(1, 1)).queued_us, l2_bytes())

    def null(self, form: Form) -> Null:
        """The zero of the calls of a form."""
        if form not in self._nulls:
            self._nulls |= self._kept()
        if form not in self._nulls:
            lacking = [one for one in dict.fromkeys((form, *USUAL)) if one not in self._nulls]
            self._nulls |= self._measure(self.toolchain, lacking)
            write_atomic(self._path, Kept(when=time.time(), nulls=tuple(self._nulls.items())).text())
        return self._nulls[form]

    def _kept(self) -> dict[Form, Null]:
        try:
            kept = Kept.parse(self._path.read_bytes())
        except (FileNotFoundError, ValidationError):
            return {}
        return dict(kept.nulls) if 0 <= time.time() - kept.when < OLD_S else {}

    @cached_property
    def _path(self) -> Path:
        """Of this GPU under this system and with this worker."""
        boot = BOOT.read_text() if BOOT.exists() else ""
        key = digest(self._ceilings.gpu, boot, self.toolchain.key, str(worker()))
        return Home.here().data / "zeros" / f"{key}.json"

"""What does not depend on a candidate: the null candidate's clocks and the floor of this GPU, measured once an hour."""

import time
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path

from pydantic import ValidationError

from warpsmith.base import Home, digest, write_atomic
from warpsmith.evaluation.timing.null import EmptyKernelForm, l2_bytes, measure_nulls
from warpsmith.evaluation.timing.rules import Floor
from warpsmith.evaluation.timing.sample import Null
from warpsmith.languages.nvcc import Toolchain
from warpsmith.machines.hardware import gpus
from warpsmith.machines.worker.worker import worker
from warpsmith.records import Ceilings, Model

USUAL = tuple(EmptyKernelForm(launches, results) for launches in (1, 2) for results in (1, 2, 3))
OLD_S = 3600.0
BOOT = Path("/proc/sys/kernel/random/boot_id")
Measure = Callable[[Toolchain, Sequence[EmptyKernelForm]], dict[EmptyKernelForm, Null]]


class Zero(Model):
    """The clocks of a form, and when they were measured."""

    form: EmptyKernelForm
    null: Null
    when: float

    def is_fresh(self, now_s: float) -> bool:
        """Whether it can be believed: how busy the host is changes."""
        return 0 <= now_s - self.when < OLD_S


class SharedZeros(Model):
    """The zeros that the processes of a machine share."""

    zeros: tuple[Zero, ...]


class Zeros:
    """Asked for by whoever has the GPU alone; so only one process measures, and the others find what it kept."""

    def __init__(
        self,
        toolchain: Toolchain,
        ceilings: Ceilings,
        measure: Measure = measure_nulls,
        clock: Callable[[], float] = time.time,
        program: Callable[[], Path] = worker,
    ) -> None:
        self.toolchain, self._ceilings, self._measure = toolchain, ceilings, measure
        self._clock, self._program = clock, program
        self._known: dict[EmptyKernelForm, Zero] = {}

    @property
    def floor(self) -> Floor:
        """No call is shorter than one launch."""
        return Floor(self._ceilings, self.null(EmptyKernelForm(1, 1)).queued_us, l2_bytes())

    def null(self, form: EmptyKernelForm) -> Null:
        """The zero of the calls of a form."""
        self._forget()
        if form not in self._known:
            self._known = self._kept() | self._known
        if form not in self._known:
            lacking = [one for one in dict.fromkeys((form, *USUAL)) if one not in self._known]
            now = self._measure(self.toolchain, lacking)
            self._known |= {one: Zero(form=one, null=null, when=self._clock()) for one, null in now.items()}
            write_atomic(self._path, SharedZeros(zeros=tuple(self._known.values())).text())
        return self._known[form].null

    def _forget(self) -> None:
        self._known = {form: zero for form, zero in self._known.items() if zero.is_fresh(self._clock())}

    def _kept(self) -> dict[EmptyKernelForm, Zero]:
        try:
            kept = SharedZeros.parse(self._path.read_bytes())
        except (FileNotFoundError, ValidationError):
            return {}
        return {zero.form: zero for zero in kept.zeros if zero.is_fresh(self._clock())}

    @cached_property
    def _path(self) -> Path:
        """Of this GPU under this system and with this worker."""
        boot = BOOT.read_text() if BOOT.exists() else ""
        drivers = [gpu.driver for gpu in gpus()]
        key = digest(self._ceilings.gpu, boot, self.toolchain.key, str(self._program()), *drivers)
        return Home.locate().data / "zeros" / f"{key}.json"

"""EmptyKernels are measured once an hour for all processes of a machine."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from warpsmith.evaluation.timing.empty_kernel import OLD_S, USUAL_FORMS, EmptyKernelForm, EmptyKernels
from warpsmith.evaluation.timing.sample import EmptyKernelTimes
from warpsmith.languages.nvcc import Toolchain
from warpsmith.machines.cuda import CudaMachine
from warpsmith.machines.rehearsed import RehearsedMachine
from warpsmith.records import Ceilings

CEILINGS = Ceilings(gpu="H200", measured=True, read_bytes_per_s=4e12, write_bytes_per_s=4e12, copy_bytes_per_s=4e12)


class Tools:
    key = "k"


class Measured:
    """A null candidate whose clocks tell how often it was measured."""

    def __init__(self) -> None:
        self.asked: list[list[EmptyKernelForm]] = []

    def __call__(
        self, _machine: CudaMachine, _toolchain: Toolchain, forms: Sequence[EmptyKernelForm]
    ) -> dict[EmptyKernelForm, EmptyKernelTimes]:
        self.asked.append(list(forms))
        return {form: EmptyKernelTimes(float(len(self.asked)), 6.0, 10.0) for form in forms}


@pytest.fixture
def measured(home: Path) -> Measured:
    return Measured()


def begun(measured: Measured, gpu: str = "H200", now_s: list[float] | None = None) -> EmptyKernels:
    clock = (lambda: now_s[0]) if now_s else time.time
    ceilings = CEILINGS.model_copy(update={"gpu": gpu})
    return EmptyKernels(RehearsedMachine(), cast(Toolchain, Tools()), ceilings, measured, clock, lambda: Path("worker"))


def test_the_usual_ones_are_measured_with_the_first_and_another_process_finds_them(measured: Measured) -> None:
    assert begun(measured).times(EmptyKernelForm(1, 1)).queued_us == 1.0
    assert begun(measured).times(USUAL_FORMS[-1]).queued_us == 1.0
    assert measured.asked == [list(USUAL_FORMS)]


def test_an_unusual_one_is_measured_and_kept_beside_them(measured: Measured) -> None:
    begun(measured).times(EmptyKernelForm(1, 1))
    assert begun(measured).times(EmptyKernelForm(7, 1)).queued_us == 2.0
    assert measured.asked[1:] == [[EmptyKernelForm(7, 1)]]
    again = begun(measured)
    assert (again.times(EmptyKernelForm(7, 1)).queued_us, again.times(EmptyKernelForm(1, 1)).queued_us) == (2.0, 1.0)


def test_those_of_another_gpu_are_not_believed(measured: Measured) -> None:
    begun(measured).times(EmptyKernelForm(1, 1))
    assert begun(measured, "B200").times(EmptyKernelForm(1, 1)).queued_us == 2.0


def test_none_is_older_than_an_hour_in_any_process(measured: Measured) -> None:
    """Another form that is measured later does not make those before it younger."""
    now_s = [1000.0]
    lasting = begun(measured, now_s=now_s)
    lasting.times(EmptyKernelForm(1, 1))
    now_s[0] += 0.7 * OLD_S
    lasting.times(EmptyKernelForm(7, 1))
    now_s[0] += 0.3 * OLD_S + 1
    for zeros in (begun(measured, now_s=now_s), lasting):
        assert zeros.times(EmptyKernelForm(7, 1)).queued_us == 2.0
        assert zeros.times(EmptyKernelForm(1, 1)).queued_us == 3.0
    assert measured.asked == [list(USUAL_FORMS), [EmptyKernelForm(7, 1)], list(USUAL_FORMS)]


def test_a_file_that_cannot_be_read_is_measured_again(measured: Measured, tmp_path: Path) -> None:
    begun(measured).times(EmptyKernelForm(1, 1))
    (path,) = (tmp_path / "data" / "empty-kernels").iterdir()
    path.write_text("{")
    assert begun(measured).times(EmptyKernelForm(1, 1)).queued_us == 2.0

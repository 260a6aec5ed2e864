"""The null candidate on the virtual GPU: as many launches and results as it is asked for."""

import pytest
import torch

from warpsmith.evaluation.timing.empty_kernel import SOURCE, EmptyKernelForm, empty_call
from warpsmith.languages.nvcc import CompileOptions, compile
from warpsmith.machines.virtual import describe
from warpsmith.machines.virtual.session import VirtualSession
from warpsmith.records import Argument, ArgumentKind, Candidate, Direction, Role, Signature

ONE = Signature(arguments=(Argument(name="x", kind=ArgumentKind.TENSOR, role=Role.INPUT),), results=("y",))


@pytest.mark.parametrize("form", [EmptyKernelForm(1, 1), EmptyKernelForm(3, 2), EmptyKernelForm(2, 3)])
def test_it_has_the_launches_and_results_of_its_form(form: EmptyKernelForm) -> None:
    made = compile(Candidate(task="null", direction=Direction.FORWARD, source=SOURCE), None, CompileOptions())
    assert made.artifact is not None, made.result.detail
    call = empty_call(form, "cpu")
    with VirtualSession(made.artifact, "forward", ONE, describe("H200")) as session:
        shown = session.call(call.arguments)
    assert shown.failure is None, shown.failure
    assert len(shown.results) == form.results
    assert torch.equal(shown.results[0], torch.zeros(1))
    assert shown.facts is not None
    assert sum(row.launches for row in shown.facts.kernels) == form.launches

"""The null candidate on the virtual GPU: as many launches as it is asked for, plain or cooperative, and a copy."""

import pytest
import torch

from warpsmith.compile import CompileOptions, compile
from warpsmith.records import Argument, Candidate, Direction, Kind, Role, Signature
from warpsmith.sandbox.virtual_session import VirtualSession
from warpsmith.timing.null import SOURCE, Form, call_of
from warpsmith.vgpu import describe

TWO = Signature(
    arguments=tuple(Argument(name=name, kind=Kind.TENSOR, role=Role.INPUT) for name in "xz"), results=("copy",)
)
FORMS = (Form(1, 1), Form(3, 2), Form(2, 3, moved_bytes=1 << 16), Form(2, 1, moved_bytes=1 << 20, together=True))


@pytest.mark.parametrize("form", FORMS)
def test_it_has_the_launches_and_results_of_its_form(form: Form) -> None:
    made = compile(Candidate(task="null", direction=Direction.FORWARD, source=SOURCE), None, CompileOptions())
    assert made.artifact is not None, made.result.detail
    call = call_of(form, "cpu")
    z = torch.arange(call.native[0].numel(), dtype=torch.float32)
    with VirtualSession(made.artifact, "forward", TWO, describe("H200")) as session:
        shown = session.call((call.arguments[0], z))
    assert shown.trouble is None, shown.trouble
    assert len(shown.results) == form.results
    assert torch.equal(shown.results[0], z)
    assert z.nbytes * 2 == pytest.approx(max(32, form.moved_bytes), abs=32)
    assert shown.facts is not None
    assert sum(row.launches for row in shown.facts.kernels) == form.launches

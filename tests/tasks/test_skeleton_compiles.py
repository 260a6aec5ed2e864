"""The skeletons of tasks compile as they are, with the exact signature."""

import pytest

from warpsmith.languages import skeleton
from warpsmith.languages.nvcc import compile
from warpsmith.records import Argument, ArgumentKind, Candidate, Direction, Language, Role, Signature, Task, Verdict
from warpsmith.tasks.formats.own import read_task
from warpsmith.tasks.suite import suite_folder

EVERY_KIND = Signature(
    arguments=tuple(Argument(name=f"{kind}.value", kind=kind, role=Role.INPUT) for kind in ArgumentKind),
    results=("grad_tensor_value", "grad_tensors_value_1", "out"),
)


def task(name: str) -> Task:
    found = read_task(suite_folder("layernorm"))
    return found.model_copy(update={"backward": EVERY_KIND, "name": "7_every-kind"}) if name == "every kind" else found


@pytest.mark.parametrize("language", list(Language))
@pytest.mark.parametrize(("name", "direction"), [("layernorm", Direction.FORWARD), ("every kind", Direction.BACKWARD)])
def test_a_skeleton_compiles(name: str, direction: Direction, language: Language) -> None:
    chosen = task(name)
    source = skeleton(chosen, direction, language)
    candidate = Candidate(task=chosen.name, direction=direction, source=source, language=language)
    found = compile(candidate, chosen.signature(direction))
    assert found.result.verdict is Verdict.PASS, found.result.detail

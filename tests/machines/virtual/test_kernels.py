"""Every correct kernel gives the right answer on the virtual GPU, and no checker objects."""

import pytest
from corpus import Sample, modules, samples, source
from runs import observe, tensors

CASES = [(module, sample) for module in modules() for sample in samples(module)]


@pytest.mark.parametrize(("module", "sample"), CASES, ids=[f"{module}-{sample.name}" for module, sample in CASES])
def test_the_answer_is_right_and_nothing_is_found(module: str, sample: Sample) -> None:
    seen = observe(source(module), sample.entry, sample.arguments)
    assert seen.failure is None
    assert seen.facts is not None
    assert [(finding.checker, finding.line, finding.message) for finding in seen.facts.findings] == []
    assert sample.fault(tensors(seen)) == ""
    assert sample.says in seen.facts.log


def test_the_corpus_has_forty_kernels_and_an_expectation_for_each() -> None:
    exported = {(module, name) for module in modules() for name in _exported(source(module))}
    assert len(exported) >= 40
    assert exported == {(module, sample.entry) for module, sample in CASES}


def _exported(text: str) -> set[str]:
    """The entries of a file; `forward` is an alias that the compile stage asks of a torch-style source."""
    lines = [line for line in text.splitlines() if line.lstrip().startswith("m.def(")]
    return {line.split('"')[1] for line in lines} - {"forward"} or {"forward"}

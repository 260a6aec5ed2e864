"""Half a megabyte of one unit, read by each function that reads a source or an answer in the evaluator process."""

import signal
from collections.abc import Callable, Iterator

import pytest

from warpsmith.base.text import find_json_objects
from warpsmith.evaluation.verify import review
from warpsmith.languages import find_language
from warpsmith.languages.cuda.static_rules import match_rules
from warpsmith.languages.cuda.tags import tags
from warpsmith.languages.cuda.tokens import normal_digest, sketch
from warpsmith.languages.cuda.tunables import MOST_BAD, read_space
from warpsmith.languages.nvcc.source import check_files, exported_directions
from warpsmith.search.proposals.answer import OTHER, read_answer

SIZE = 1 << 19
PROCESSOR_S = 10.0  # an ordinary source takes a thousandth of it, a quadratic search hours
TUNE = "// tune: A = 1 [1, 2]\n"
READERS: dict[str, Callable[[str], object]] = {
    "rules": lambda text: list(match_rules(text)),
    "tags": tags,
    "space": read_space,
    "digest": lambda text: normal_digest(text, {}),
    "sketch": sketch,
    "files": check_files,
    "exported": exported_directions,
    "kernel": lambda text: find_language("torch").kernel.search(text),
    "answer": lambda text: read_answer(f"```\n{text}\n```"),
    "other": OTHER.search,
    "fenced": lambda text: review.FENCED.findall(f"```{text}"),
    "objects": lambda text: list(find_json_objects(text)),
}
UNITS = ("\n", " ", "\t", "[", "{", "/*", '"', "\\\n", "#define a \\\n", "__global__ ", "cublas", "template<", TUNE)


@pytest.fixture(autouse=True)
def bounded() -> Iterator[None]:
    """Raise TimeoutError in the test after some processor time."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"more than {PROCESSOR_S:g} s of processor time")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, PROCESSOR_S)
    yield
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    signal.signal(signal.SIGVTALRM, before)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("reader", READERS)
def test_no_text_keeps_the_evaluator_busy(reader: str, unit: str) -> None:
    READERS[reader](TUNE + unit * (SIZE // len(unit)))


def test_declarations_that_are_refused_are_counted() -> None:
    assert len(read_space(TUNE * 1000).bad) == MOST_BAD


def test_a_choice_too_many_is_refused_by_its_count() -> None:
    (bad,) = read_space(f"// tune: A = 1 [{', '.join(map(str, range(2, 5000)))}]").bad
    assert bad.message == "A has 4998 choices; at most 64 are searched"

"""The corpus: headers, what counts as caught, and the two rates."""

from pathlib import Path

import pytest

from warpsmith.base import UsageError
from warpsmith.evaluation.batch import Results
from warpsmith.evaluation.config import EvaluationConfig
from warpsmith.evaluation.corpus import (
    Audit,
    CorpusFile,
    CorpusOutcome,
    Expected,
    audit,
    examine,
    judged,
    key_of,
    read_corpus,
    read_outcomes,
    read_specimen,
    untouched,
)
from warpsmith.records import (
    Candidate,
    Defence,
    Direction,
    Environment,
    Reason,
    Record,
    StageResult,
    TimingFacts,
    Verdict,
)
from warpsmith.records.fake import fake_timing

CHOICES = EvaluationConfig(device="vgpu")
ATTACK = """// attack: output cache by pointer
// task: softmax
// direction: backward
// caught: compile forbidden_symbol, check wrong_value, unwritten
// without: check wrong_value
// device: vgpu
// Some words: about it.
#include <torch/extension.h>
// task: not_a_header
"""


def specimen(attack: bool = True, harmless: str = "") -> CorpusFile:
    caught = (Expected(stage="check", reason=Reason.WRONG_VALUE),)
    without = (Expected(stage="check", reason=Reason.UNWRITTEN),)
    return CorpusFile(
        path="k.cu", name="k", attack=attack, task="softmax", caught=caught, without=without, harmless=harmless
    )


def record(verdict: Verdict, reason: Reason | None = None, stage: str = "check") -> Record:
    candidate = Candidate(task="softmax", direction=Direction.FORWARD, source="x")
    empty = Record(candidate=candidate, task_version="1", environment=Environment(device="d", hardware="h"))
    first = StageResult(stage="compile", verdict=Verdict.PASS)
    return empty.with_result(first).with_result(StageResult(stage=stage, verdict=verdict, reason=reason, detail="why"))


def test_a_header_says_what_a_file_is(tmp_path: Path) -> None:
    path = tmp_path / "k.cu"
    path.write_text(ATTACK)
    found = read_specimen(path)
    assert found is not None
    assert found.attack and found.name == "output cache by pointer" and found.task == "softmax"
    assert found.direction is Direction.BACKWARD and found.device == "vgpu"
    assert [(one.stage, one.reason) for one in found.caught] == [
        ("compile", Reason.FORBIDDEN_SYMBOL),
        ("check", Reason.WRONG_VALUE),
        ("check", Reason.UNWRITTEN),
    ]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("// attack: x\n", "no '// task"),
        ("// attack: x\n// task: t\n// caught: check magic\n", "magic"),
        ("// attack: x\n// task: t\n// direction: up\n", "up"),
        ("// attack: x\n// task: t\n// cases: some\n", "all"),
    ],
)
def test_a_header_that_cannot_be_read_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "k.cu").write_text(text)
    with pytest.raises(UsageError, match=complaint):
        read_corpus([tmp_path])


@pytest.mark.parametrize(("words", "most"), [("", 2), ("// cases: all\n", None)])
def test_an_attack_on_a_late_case_is_tried_with_every_case(words: str, most: int | None, tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(words + ATTACK)
    (one,), asked = read_corpus([tmp_path]), list[int | None]()

    def judge(_candidate: Candidate, config: EvaluationConfig, _seed: int | None = None) -> Record:
        asked.append(config.most_cases)
        return record(Verdict.FAIL, Reason.WRONG_VALUE)

    assert not examine(one, CHOICES.replace(most_cases=2), by=judge).wrong
    assert asked == [most]


def test_a_folder_without_a_corpus_is_refused(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text("// a kernel\n")
    with pytest.raises(UsageError, match="begins with"):
        read_corpus([tmp_path])
    with pytest.raises(UsageError, match="does not exist"):
        read_corpus([tmp_path / "absent"])


@pytest.mark.parametrize(
    ("found", "bare", "expected", "wrong"),
    [
        (record(Verdict.FAIL, Reason.WRONG_VALUE), False, True, False),
        (record(Verdict.FAIL, Reason.WRONG_VALUE, "virtual"), False, True, False),
        (record(Verdict.FAIL, Reason.CRASH), False, False, False),
        (record(Verdict.FAIL, Reason.WRONG_VALUE), True, False, False),
        (record(Verdict.FAIL, Reason.UNWRITTEN), True, True, False),
        (record(Verdict.QUARANTINE, Reason.HIDDEN_WORK, "timing"), False, False, False),
        (record(Verdict.PASS), False, False, True),
    ],
)
def test_an_attack_is_caught_or_it_succeeds(found: Record, bare: bool, expected: bool, wrong: bool) -> None:
    outcome = judged(specimen(), found, bare)
    assert (outcome.expected, outcome.wrong) == (expected, wrong)


def test_an_attack_that_gains_nothing_may_pass() -> None:
    outcome = judged(specimen(harmless="every timed call is checked"), record(Verdict.PASS), False)
    assert outcome.expected and not outcome.wrong


@pytest.mark.parametrize(("honest_us", "wrong"), [(9.0, False), (10.0, False), (20.0, True)])
def test_an_attack_that_passes_has_succeeded_unless_it_is_harmless_and_no_faster(
    honest_us: float | None, wrong: bool
) -> None:
    facts = TimingFacts(tier="modelled", cases=(fake_timing(10.0),))
    passed = record(Verdict.PASS).with_result(StageResult(stage="timing", verdict=Verdict.PASS, facts=facts))
    assert judged(specimen(harmless="a reason"), passed, False, honest_us).wrong is wrong
    assert judged(specimen(), passed, False, honest_us).wrong


@pytest.mark.parametrize("verdict", [Verdict.FAIL, Verdict.QUARANTINE, Verdict.FAULT, Verdict.SKIP])
def test_a_control_passes_or_is_a_false_alarm(verdict: Verdict) -> None:
    reason = None if verdict is Verdict.SKIP else Reason.WRONG_VALUE
    assert judged(specimen(attack=False), record(verdict, reason), False).wrong
    assert not judged(specimen(attack=False), record(Verdict.PASS), False).wrong


def test_rates_come_with_their_denominators() -> None:
    def outcome(attack: bool, wrong: bool) -> CorpusOutcome:
        return CorpusOutcome(specimen=specimen(attack), verdict=Verdict.PASS, expected=not wrong, wrong=wrong)

    found = Audit(outcomes=(outcome(True, False), outcome(True, True), outcome(False, False)))
    assert found.summary() == "attacks that succeeded: 1 of 2; false alarms: 0 of 1"
    assert not found.clean and Audit(outcomes=(outcome(True, False),)).clean


def test_an_attack_that_could_not_be_tried_was_not_resisted() -> None:
    nothing = [
        (Verdict.FAULT, Reason.HARNESS),
        (Verdict.SKIP, Reason.HARNESS),
        (Verdict.QUARANTINE, Reason.DISTURBED),
    ]
    lost = [judged(specimen(), record(*one), False) for one in nothing]
    found = Audit(outcomes=(*lost, judged(specimen(), record(Verdict.FAIL, Reason.WRONG_VALUE), False)))
    assert found.summary() == ("attacks that succeeded: 0 of 1; false alarms: 0 of 0; attacks without a verdict: 3")
    assert found.clean and found.faulty and not Audit(outcomes=(lost[1],)).faulty


def outcome(one: CorpusFile, verdict: Verdict = Verdict.FAIL) -> CorpusOutcome:
    return CorpusOutcome(specimen=one, verdict=verdict, expected=True, wrong=False, key=key_of(one, CHOICES))


def test_an_audit_goes_on_where_an_earlier_one_was_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c", "d"):
        (tmp_path / f"{name}.cu").write_text(ATTACK.replace("by pointer", name))
    corpus, file, tried = read_corpus([tmp_path]), tmp_path / "out.jsonl", list[str]()

    def examined(one: CorpusFile, _choices: EvaluationConfig, by: object) -> CorpusOutcome:
        tried.append(Path(one.path).stem)
        return outcome(one)

    monkeypatch.setattr("warpsmith.evaluation.corpus.examine", examined)
    first, second, third = (outcome(one).text() for one in corpus[:3])
    fault = outcome(corpus[1], Verdict.FAULT).text()
    file.write_text(f"{first}\n{fault}\n{third}\n{second[:40]}")
    told: list[CorpusOutcome] = []
    found = audit(corpus, CHOICES, 2, told.append, read_outcomes(Results(file).lines))
    assert sorted(tried) == ["b", "d"] and len(told) == 2
    assert [one.specimen for one in found.outcomes] == corpus
    (tmp_path / "a.cu").write_text(ATTACK.replace("by pointer", "otherwise"))
    tried.clear()
    audit(read_corpus([tmp_path]), CHOICES, 2, told.append, read_outcomes(Results(file).lines))
    assert sorted(tried) == ["a", "b", "d"], "another text is another attack"
    tried.clear()
    bare = CHOICES.replace(without=frozenset({Defence.LINK}))
    audit(read_corpus([tmp_path]), bare, 2, told.append, read_outcomes(Results(file).lines))
    assert len(tried) == 4


def test_only_what_a_defence_stopped_is_tried_again_without_it(tmp_path: Path) -> None:
    header = "// attack: {}\n// task: max_pool\n// caught: compile forbidden_symbol\n// without: check crash\n"
    for name in ("linked", "crashed", "lost"):
        (tmp_path / f"{name}.cu").write_text(header.format(name))
    crashed, linked, lost = read_corpus([tmp_path])
    found = Audit(
        outcomes=(
            judged(linked, record(Verdict.FAIL, Reason.FORBIDDEN_SYMBOL, "compile"), False),
            judged(crashed, record(Verdict.FAIL, Reason.CRASH), False),
            judged(lost, record(Verdict.FAULT, Reason.HARNESS), False),
        )
    )
    bare = CHOICES.replace(without=frozenset({Defence.LINK, Defence.STATIC}))
    assert [one.specimen.name for one in untouched(found, bare).values()] == ["crashed"]
    assert list(untouched(found, bare)) == [key_of(crashed, bare)]
    silent = CHOICES.replace(without=frozenset({Defence.STATIC}))
    assert [one.specimen.name for one in untouched(found, silent).values()] == ["linked", "crashed"]
    assert [one.expected for one in untouched(found, silent).values()] == [False, True], "by the header's other line"
    assert untouched(found, CHOICES.replace(without=frozenset({Defence.VIRTUAL}))) == {}

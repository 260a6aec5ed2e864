"""Ask and tell: the same slots, filled by whoever answers, evaluated here or elsewhere."""

from pathlib import Path

import pytest
from evolving import aim, answer, kernel, run_record, start

from warpsmith.archive import Archive
from warpsmith.base import UsageError
from warpsmith.llm import Ensemble, ReplayMismatch, Transcript
from warpsmith.llm.tape import TranscriptFile, TranscriptModel
from warpsmith.records import Candidate, Reason, Record, Task
from warpsmith.search import Opinion, Search, SearchConfig, SearchTools
from warpsmith.search.dialogue import Dialogue, ExternalModel
from warpsmith.search.fake import fake_evaluator, fake_record
from warpsmith.search.slots import SlotOutcome


def clock(candidate: Candidate) -> float | Reason:
    factor = candidate.source.partition("x[i] * ")[2].partition("f")[0]
    return Reason.WRONG_VALUE if factor.startswith("-") else float(factor or 10.0)


JUDGE = fake_evaluator(clock)


def opened(archive: Archive, task: Task, first: Candidate | None = None, count: int = 3) -> Search:
    """The run as a new process would find it."""
    if not archive.runs():
        archive.start(run_record())
    one = aim(task, first, SearchConfig(proposals=count, drafts=count, tuner_share=0.0))
    return Search(archive, archive.run("r"), *one, SearchTools(JUDGE, Ensemble([ExternalModel()]), summaries=False))


def begun(archive: Archive, task: Task) -> Search:
    """A run whose first kernel was evaluated."""
    search = opened(archive, task, start(kernel("1.0f")))
    assert Dialogue(search).evaluate(JUDGE).closed
    return search


def ask(search: Search) -> list[str]:
    return [one.slot.name for one in Dialogue(search).open_questions()]


def test_questions_are_whole_prompts_and_the_same_when_asked_again(archive: Archive, task: Task) -> None:
    first = Dialogue(begun(archive, task)).open_questions()
    again = Dialogue(opened(archive, task, start(kernel("1.0f")))).open_questions()
    assert first == again and len(first) == 3
    assert all(task.description in one.prompt.user and "# Answer" in one.prompt.user for one in first)


def test_answers_are_evaluated_and_the_next_generation_builds_on_them(archive: Archive, task: Task) -> None:
    search = begun(archive, task)
    dialogue = Dialogue(search)
    texts = {name: answer(kernel(f"x[i] * {n + 2}.0f")) for n, name in enumerate(ask(search))}
    assert dialogue.answer(texts) == 3
    told = dialogue.evaluate(JUDGE)
    assert told.closed and not told.unanswered and len(told.lines) == 3
    best = search.state.population.best
    assert best is not None and best.gain == pytest.approx(5.0) and best.record.candidate.origin == "somebody"
    assert "5.00× the first kernel" in Dialogue(search).open_questions()[0].prompt.user


def test_what_is_not_answered_stays_open_until_it_is_given_up(archive: Archive, task: Task) -> None:
    search = begun(archive, task)
    names = ask(search)
    dialogue = Dialogue(search)
    dialogue.answer({names[0]: answer(kernel("x[i] * 4.0f"))})
    told = dialogue.evaluate(JUDGE)
    assert not told.closed and told.unanswered == tuple(names[1:])
    assert told.lines[0].endswith(": pass: 4.00 µs modelled, 2.50× the first kernel")
    assert ask(opened(archive, task, start(kernel("1.0f")))) == names[1:]
    assert Dialogue(search).drop() == 2
    assert Dialogue(search).evaluate(JUDGE).closed


def test_telling_the_same_answers_twice_changes_nothing(archive: Archive, task: Task) -> None:
    search = begun(archive, task)
    names = ask(search)
    texts = {names[0]: answer(kernel("x[i] * 4.0f"))}
    assert Dialogue(search).answer(texts) == 1
    Dialogue(search).evaluate(JUDGE)
    count = archive.count("r")
    assert Dialogue(search).answer(texts) == 0 and Dialogue(search).late_answers(texts) == ()
    Dialogue(search).evaluate(JUDGE)
    assert archive.count("r") == count
    other = {names[0]: answer(kernel("x[i] * 5.0f"))}
    assert Dialogue(search).late_answers(other) == (f"{names[0]}: not taken, the slot already has another answer",)


def test_an_answer_to_no_question_is_refused(archive: Archive, task: Task) -> None:
    with pytest.raises(UsageError, match=r"Answer 9\.9 belongs to no question"):
        Dialogue(begun(archive, task)).answer({"9.9": answer(kernel("2.0f"))})


def test_a_translation_from_nothing_gets_the_evidence_of_its_last_attempt(archive: Archive, task: Task) -> None:
    search = opened(archive, task, count=1)
    (first,) = Dialogue(search).open_questions()
    assert first.prompt.kind == "translate"
    Dialogue(search).answer({first.slot.name: answer(kernel("x[i] * -1.0f"))})
    assert Dialogue(search).evaluate(JUDGE).closed
    (second,) = Dialogue(search).open_questions()
    assert "wrong_value" in second.prompt.user and "x[i] * -1.0f" in second.prompt.user
    Dialogue(search).answer({second.slot.name: answer(kernel("x[i] * 3.0f"))})
    Dialogue(search).evaluate(JUDGE)
    assert search.state.population.best is not None
    (third,) = Dialogue(search).open_questions()
    assert third.prompt.kind == "propose"


def test_evaluated_elsewhere_a_run_comes_to_the_same(archive: Archive, task: Task) -> None:
    search = opened(archive, task, start(kernel("1.0f")))
    assert ask(search) == []  # the first kernel has no record yet
    waiting = Dialogue(search).requests().waiting
    assert [one.candidate.origin for one in waiting] == ["seed"]
    assert Dialogue(search).results([JUDGE(waiting[0].candidate)]).closed
    names = ask(search)
    Dialogue(search).answer({name: answer(kernel(f"x[i] * {n + 2}.0f")) for n, name in enumerate(names)})
    told = Dialogue(search).requests()
    assert not told.closed and len(told.waiting) == 3 and archive.count("r") == 1
    there = opened(archive, task, start(kernel("1.0f")))  # a later process
    told = Dialogue(there).results([JUDGE(_travelled(one.candidate)) for one in told.waiting])
    assert told.closed and not told.waiting
    best = there.state.population.best
    assert best is not None and best.gain == pytest.approx(5.0)
    entry = archive.best("r")
    assert entry is not None and entry.candidate == best.id and entry.tags.operator


def _travelled(candidate: Candidate) -> Candidate:
    """As a batch gives it back: its task by another name, its ancestry gone."""
    return candidate.model_copy(update={"task": "elsewhere/layernorm", "parents": (), "origin": "user"})


def test_a_record_that_nobody_waits_for_is_left_out_and_said(archive: Archive, task: Task) -> None:
    search = begun(archive, task)
    stray: Record = fake_record(start(kernel("x[i] * 7.0f")), 7.0)
    told = Dialogue(search).results([stray])
    assert "matches no waiting candidate" in told.lines[0] and archive.count("r") == 1


def test_verifiers_stop_an_answer_before_it_is_requested(archive: Archive, task: Task) -> None:
    search = begun(archive, task)
    names = ask(search)
    texts = {name: answer(kernel(f"x[i] * {n - 1}.0f")) for n, name in enumerate(names)}

    def screen(candidate: Candidate) -> Opinion:
        return Opinion(go="* -1" not in candidate.source, why="the factor is negative")

    Dialogue(search).answer(texts)
    told = Dialogue(search, screen).requests()
    assert len(told.waiting) == 2 and "the factor is negative" in told.lines[0]
    stopped = [one for one in search.ledger.load_results(1) if one.proposal.outcome is SlotOutcome.STOPPED]
    assert len(stopped) == 1


def test_a_dialogue_is_recorded_and_its_questions_are_answered_again(
    archive: Archive, task: Task, tmp_path: Path
) -> None:
    path = tmp_path / "tape.jsonl"
    search = begun(archive, task)
    for turn in range(2):
        names = ask(search)
        dialogue = Dialogue(search, tape=TranscriptFile(path, [TranscriptModel(name="somebody")]))
        dialogue.answer({name: answer(kernel(f"x[i] * {n + 2 * turn + 2}.0f")) for n, name in enumerate(names[:2])})
        assert dialogue.drop() == 1
        assert dialogue.evaluate(JUDGE).closed
    with Archive.open("sqlite://") as other:
        again = begun(other, task)
        for _ in range(2):
            dialogue = Dialogue(again)
            texts = dialogue.recorded_answers(Transcript(path))
            assert len(texts) == 2  # what was given up then is not answered now
            dialogue.answer(dict(list(texts.items())[:1]))
            assert dialogue.recorded_answers(Transcript(path)) == {name: texts[name] for name in list(texts)[1:]}
            dialogue.answer(texts)
            dialogue.drop()
            assert dialogue.evaluate(JUDGE).closed
        assert again.state.population.best == search.state.population.best
        with pytest.raises(ReplayMismatch, match="has no propose prompt left"):
            Dialogue(again).recorded_answers(Transcript(path))

"""The search on fakes: what it proposes, keeps, learns and survives."""

import sqlite3
from pathlib import Path

import pytest
from evolving import KERNEL, aim, answer, kernel, run_record, search, start

from warpsmith.archive import Archive
from warpsmith.base import ArchiveError, HarnessError, UsageError
from warpsmith.llm import (
    BudgetSpent,
    EmptyText,
    Ensemble,
    FinishReason,
    Malformed,
    ModelAnswer,
    ModelError,
    Prompt,
    RateLimited,
    Rejected,
    ScriptedModel,
    ServerFailed,
    TimedOut,
    Unreachable,
)
from warpsmith.records import Candidate, Reason, RunState, Task
from warpsmith.search import Opinion, Search, SearchConfig, SearchTools
from warpsmith.search.fake import fake_evaluator, macro_clock
from warpsmith.search.ledger import RunLedger
from warpsmith.search.slots import SlotOutcome

CLOCK = macro_clock({"BLOCK": {"64": 2.0, "128": 0.9, "512": 0.8}, "VEC": {"2": 0.7, "4": 0.5}})


class Script:
    """A model that writes another kernel each time it is asked; the number in it is its time."""

    def __init__(self, times: list[str]) -> None:
        self.times = times
        self.asked: list[Prompt] = []

    def __call__(self, prompt: Prompt) -> str:
        self.asked.append(prompt)
        place = len(self.asked) - 1
        return answer(kernel(f"x[i] * {self.times[place % len(self.times)]}f + {place}.0f"), f"kernel {place}")


def number_clock(candidate: Candidate) -> float | Reason:
    """A kernel takes as long as the factor in it; a seed takes ten; a negative one is wrong."""
    if "x[i] * " not in candidate.source or "+" not in candidate.source.partition("x[i] * ")[2][:12]:
        return 10.0
    found = float(candidate.source.partition("x[i] * ")[2].partition("f")[0])
    return found if found > 0 else Reason.WRONG_VALUE


def outcomes(archive: Archive, generations: int) -> list[str]:
    ledger = RunLedger(archive, "r")
    return [one.proposal.outcome.value for number in range(generations) for one in ledger.load_results(number)]


def test_without_a_model_the_tuner_finds_the_best_point(archive: Archive, task: Task) -> None:
    ending = search(archive, aim(task, start()), CLOCK).run()
    assert ending.best is not None and ending.best.record.candidate.macros == {"BLOCK": "512", "VEC": "4"}
    assert ending.best.gain == pytest.approx(2.5) and ending.why == "nothing is left to propose"
    assert archive.count("r") == ending.evaluations == 12
    assert archive.run("r").state is RunState.DONE
    found = archive.best("r")
    assert found is not None and found.candidate == ending.best.id


def test_a_run_with_nothing_left_to_do_ended_when_it_did(archive: Archive, task: Task) -> None:
    search(archive, aim(task, start(), SearchConfig(generations=1)), CLOCK).run()
    ended = archive.run("r").finished
    search(archive, aim(task, start(), SearchConfig(generations=1)), CLOCK).run()
    assert ended is not None and archive.run("r").finished == ended
    search(archive, aim(task, start(), SearchConfig(generations=2)), CLOCK).run()
    later = archive.run("r").finished
    assert later is not None and later > ended


def test_a_kernel_without_tunables_and_no_model_ends_at_once(archive: Archive, task: Task) -> None:
    ending = search(archive, aim(task, start(kernel("1.0f"))), CLOCK).run()
    assert ending.evaluations == 1 and ending.best is not None and ending.best.gain == 1.0


def test_models_propose_and_the_best_is_kept_with_its_lineage(archive: Archive, task: Task) -> None:
    script = Script(["9.0", "8.0", "-1.0", "4.0"])
    model = ScriptedModel(script, "m")
    limits = SearchConfig(generations=3)
    ending = search(archive, aim(task, start(kernel("1.0f")), limits), number_clock, [model]).run()
    assert ending.best is not None and ending.best.gain == pytest.approx(2.5)
    assert ending.generations == 3 and len(script.asked) == 24
    best = archive.best("r")
    assert best is not None and best.tags.model == "m" and best.tags.operator
    assert {call.model for call in archive.spent("r")} == {"m"}


def test_at_most_so_many_of_a_generation_are_evaluated(archive: Archive, task: Task) -> None:
    one = aim(task, start(kernel("1.0f")), SearchConfig(generations=1, proposals=6, evaluate=2))
    ending = search(archive, one, number_clock, [ScriptedModel(Script(["5.0"]), "m")]).run()
    assert ending.evaluations == 3  # the seed and two
    assert outcomes(archive, 2).count(SlotOutcome.PASSED_OVER) == 4


@pytest.mark.parametrize("most", [1, 2, 5])
@pytest.mark.parametrize("models", [0, 1])
def test_no_more_than_the_budget_is_evaluated(models: int, most: int, archive: Archive, task: Task) -> None:
    model = ScriptedModel(Script(["5.0", "4.0", "3.0"]), "m")
    one = aim(task, start(), SearchConfig(budget_evaluations=most))
    ending = search(archive, one, CLOCK, [model][:models]).run()
    assert archive.count("r") == ending.evaluations == most
    assert ending.why == f"{most} of {most} evaluations are done"


def test_a_budget_that_is_smaller_now_holds_for_a_generation_that_was_planned(archive: Archive, task: Task) -> None:
    def killed(candidate: Candidate) -> float | Reason:
        if archive.count("r"):
            raise OSError("the power went off")
        return CLOCK(candidate)

    with pytest.raises(OSError, match="power"):
        search(archive, aim(task, start()), killed).run()
    search(archive, aim(task, start(), SearchConfig(budget_evaluations=3)), CLOCK).run()
    assert archive.count("r") == 3
    assert search(archive, aim(task, start()), CLOCK).run().evaluations == 12, "what was passed over is tried later"


def test_drafts_are_no_more_than_the_budget(archive: Archive, task: Task) -> None:
    one = aim(task, None, SearchConfig(budget_evaluations=3, drafts=2))
    ending = search(archive, one, number_clock, [ScriptedModel(Script(["-1.0", "-2.0"]), "m")]).run()
    assert ending.evaluations == 3 and ending.best is None


def test_verifiers_stop_proposals_and_rank_the_others(archive: Archive, task: Task) -> None:
    def screen(candidate: Candidate) -> Opinion:
        time = float(candidate.source.partition("x[i] * ")[2].partition("f")[0])
        return Opinion(go=time > 0, confidence=1 / time if time > 0 else 0, why="negative")

    archive.start(run_record())
    script = Script(["-1.0", "9.0", "3.0", "7.0"])
    one = aim(task, start(kernel("1.0f")), SearchConfig(generations=1, proposals=4, evaluate=1))
    tools = SearchTools(fake_evaluator(number_clock), Ensemble([ScriptedModel(script, "m")]), screen)
    ending = Search(archive, archive.run("r"), *one, tools).run()
    assert ending.best is not None and ending.best.gain == pytest.approx(10 / 3)
    found = outcomes(archive, 2)
    assert found.count(SlotOutcome.STOPPED) == 1 and found.count(SlotOutcome.PASSED_OVER) == 2


def reviewed(candidate: Candidate) -> Opinion:
    """Two answers of a reviewer at a dime each; a negative factor is stopped."""
    said = ModelAnswer(text="looked", model="reviewer", usd=0.1, input_tokens=7)
    return Opinion(go="* -" not in candidate.source, why="negative", answers=(said, said))


def test_what_reviewers_cost_is_kept_of_all_that_they_looked_at(archive: Archive, task: Task) -> None:
    archive.start(run_record())
    one = aim(task, start(kernel("1.0f")), SearchConfig(generations=1, proposals=3, evaluate=1))
    tools = SearchTools(
        fake_evaluator(number_clock), Ensemble([ScriptedModel(Script(["-1.0", "9.0", "3.0"]), "m")]), reviewed
    )
    ending = Search(archive, archive.run("r"), *one, tools).run()
    assert set(outcomes(archive, 2)) == {SlotOutcome.EVALUATED, SlotOutcome.STOPPED, SlotOutcome.PASSED_OVER}
    (spent,) = [call for call in archive.spent("r") if call.model == "reviewer"]
    assert (spent.operator, spent.calls, spent.input_tokens) == ("review", 6, 42)
    assert spent.usd == pytest.approx(0.6) == ending.usd


def test_a_review_that_was_paid_is_not_asked_again_after_a_kill(archive: Archive, task: Task) -> None:
    archive.start(run_record())
    one = aim(task, start(kernel("1.0f")), SearchConfig(generations=1, proposals=2))
    model, seen = ScriptedModel(Script(["9.0", "3.0"]), "m"), list[str]()

    def screen(candidate: Candidate) -> Opinion:
        seen.append(candidate.id)
        return reviewed(candidate)

    def killed(candidate: Candidate) -> float | Reason:
        if seen:
            raise OSError("the power went off")
        return number_clock(candidate)

    with pytest.raises(OSError, match="power"):
        Search(archive, archive.run("r"), *one, SearchTools(fake_evaluator(killed), Ensemble([model]), screen)).run()
    ending = Search(
        archive, archive.run("r"), *one, SearchTools(fake_evaluator(number_clock), Ensemble([model]), screen)
    ).run()
    assert len(seen) == 2 and ending.evaluations == 3
    assert sum(call.usd for call in archive.spent("r")) == pytest.approx(0.4) == ending.usd


def test_the_same_kernel_is_evaluated_once(archive: Archive, task: Task) -> None:
    same = answer(kernel("x[i] * 5.0f + 0.0f"))
    one = aim(task, start(kernel("1.0f")), SearchConfig(generations=2, proposals=4))
    ending = search(archive, one, number_clock, [ScriptedModel(lambda prompt: same, "m")]).run()
    assert ending.evaluations == 2
    assert outcomes(archive, 3).count(SlotOutcome.DUPLICATE) == 7


BAD = {
    "empty": "",
    "no code": "I would use shared memory.",
    "two blocks": answer(kernel("2.0f")) + answer(kernel("3.0f")),
    "wrong language": "```python\nimport triton\n```",
    "refusal": "I'm sorry, but I can't help with that.",
    "cut off": f"```cuda\n{KERNEL}",
}


@pytest.mark.parametrize("text", BAD.values(), ids=BAD.keys())
def test_a_bad_answer_is_noted_and_the_run_goes_on(text: str, archive: Archive, task: Task) -> None:
    one = aim(task, start(), SearchConfig(generations=2, proposals=4))
    ending = search(archive, one, CLOCK, [ScriptedModel(lambda prompt: text, "m")]).run()
    assert ending.generations == 2 and ending.funnel["bad_answer"] == 6
    assert ending.best is not None and ending.best.gain > 1.0  # the tuner's share of the slots


def test_a_refusal_that_the_provider_marks_is_one(archive: Archive, task: Task) -> None:
    refused = ModelAnswer(text=answer(kernel("2.0f")), model="m", finish=FinishReason.REFUSAL)
    one = aim(task, start(kernel("1.0f")), SearchConfig(generations=1, proposals=1))
    search(archive, one, CLOCK, [ScriptedModel([refused], "m")]).run()
    found = RunLedger(archive, "r").load_results(1)
    assert found[0].proposal.outcome is SlotOutcome.BAD_ANSWER and "refus" in found[0].proposal.detail


LOST = [
    RateLimited("m", "429 Too Many Requests"),
    ServerFailed("m", "500 Internal Server Error"),
    Malformed("m", "not JSON"),
    EmptyText("m", "no text"),
    Unreachable("m", "connection refused"),
    Rejected("m", "401 Unauthorized"),
]


@pytest.mark.parametrize("error", LOST, ids=lambda error: type(error).__name__)
def test_one_model_that_fails_does_not_keep_the_other_from_answering(
    error: ModelError, archive: Archive, task: Task
) -> None:
    good, bad = ScriptedModel(Script(["4.0"]), "good"), ScriptedModel(lambda prompt: error, "bad")
    one = aim(task, start(kernel("1.0f")), SearchConfig(generations=2, proposals=4))
    ending = search(archive, one, number_clock, [bad, good]).run()
    assert ending.best is not None and ending.best.gain == pytest.approx(2.5)
    assert ending.funnel["model_failed"] > 0 and str(error) in ending.failures


def test_a_model_that_never_answers_is_given_up_and_the_tuner_goes_on(archive: Archive, task: Task) -> None:
    def fail(prompt: Prompt) -> ModelError:
        return TimedOut("m", "no answer in 600 s")

    ending = search(archive, aim(task, start(), SearchConfig(patience=None)), CLOCK, [ScriptedModel(fail, "m")]).run()
    assert ending.best is not None and ending.best.gain == pytest.approx(2.5)
    assert any("timed out" in failure for failure in ending.failures)
    assert ending.funnel["model_failed"] == 12


def test_a_spent_budget_ends_the_asking_and_not_the_tuning(archive: Archive, task: Task) -> None:
    script: list[str | ModelError] = [answer(kernel("x[i] * 5.0f + 0.0f"))] + [BudgetSpent("too dear")] * 50
    ending = search(archive, aim(task, start()), CLOCK, [ScriptedModel(script, "m")]).run()
    assert ending.funnel["out_of_budget"] == 5 and "budget" in ending.why
    assert ending.best is not None and ending.best.gain == pytest.approx(2.5)


@pytest.mark.parametrize("error", [BudgetSpent("too dear"), ServerFailed("m", "503")], ids=["spent", "down"])
def test_who_resumes_has_models_asked_again(error: ModelError, archive: Archive, task: Task) -> None:
    first = aim(task, start(kernel("1.0f")), SearchConfig(generations=4, patience=None, proposals=2))
    search(archive, first, number_clock, [ScriptedModel(lambda prompt: error, "m")]).run()
    more = (first[0], first[1].replace(generations=8))
    ending = search(archive, more, number_clock, [ScriptedModel(Script(["4.0"]), "m")]).run()
    assert ending.best is not None and ending.best.gain == pytest.approx(2.5)


def test_what_came_to_nothing_is_paid_all_the_same(archive: Archive, task: Task) -> None:
    def fail(prompt: Prompt) -> ModelError:
        error = EmptyText("m", "no text")
        error.usd = 0.25
        return error

    one = aim(task, start(kernel("1.0f")), SearchConfig(generations=1, proposals=2))
    ending = search(archive, one, number_clock, [ScriptedModel(fail, "m")]).run()
    assert ending.usd == sum(call.usd for call in archive.spent("r")) == 0.25 * ending.funnel["model_failed"] > 0


def test_a_first_kernel_is_translated_with_a_summary_of_the_last_error(archive: Archive, task: Task) -> None:
    def speak(prompt: Prompt) -> str:
        if prompt.kind == "summarize":
            return "The factor is negative."
        right = "The factor is negative." in prompt.user
        return answer(kernel("x[i] * 5.0f + 0.0f" if right else "x[i] * -1.0f + 0.0f"))

    model = ScriptedModel(speak, "m")
    one = aim(task, None, SearchConfig(generations=0, drafts=1))
    ending = search(archive, one, number_clock, [model]).run()
    assert ending.best is not None and ending.evaluations == 2
    assert [prompt.kind for prompt in model.asked] == ["translate", "summarize", "translate"]


def test_several_drafts_are_tried_at_once_and_one_that_is_right_is_enough(archive: Archive, task: Task) -> None:
    script = Script(["-1.0", "-2.0", "6.0"])
    one = aim(task, None, SearchConfig(generations=0, drafts=3))
    ending = search(archive, one, number_clock, [ScriptedModel(script, "m")]).run()
    assert ending.best is not None and ending.evaluations == 3 and len(script.asked) == 3


def test_a_translation_that_never_succeeds_ends_with_the_evidence(archive: Archive, task: Task) -> None:
    one = aim(task, None, SearchConfig(drafts=1, attempts=2))
    model = ScriptedModel(Script(["-1.0"]), "m")
    with pytest.raises(UsageError, match=r"after 2 rounds of translation.*wrong_value.*--from KERNEL.*warpsmith ask r"):
        search(archive, one, number_clock, [model]).run()
    assert archive.run("r").state is RunState.FAILED and archive.count("r") == 2


def test_a_start_that_is_wrong_and_no_model_is_said(archive: Archive, task: Task) -> None:
    with pytest.raises(UsageError, match=r"no correct kernel to search from: .*\. Give one with --from"):
        search(archive, aim(task, start()), lambda candidate: Reason.WRONG_VALUE).run()


def test_a_start_that_we_could_not_evaluate_says_what_this_machine_lacks(archive: Archive, task: Task) -> None:
    with pytest.raises(HarnessError, match=r"could not be evaluated: .*harness\.$"):
        search(archive, aim(task, start()), lambda candidate: Reason.HARNESS).run()


def test_a_broken_proposal_is_repaired_from_its_evidence(archive: Archive, task: Task) -> None:
    seen: list[Prompt] = []

    def speak(prompt: Prompt) -> str:
        seen.append(prompt)
        repaired = "What is wrong with it" in prompt.user
        return answer(kernel(f"x[i] * {'2.0' if repaired else '-1.0'}f + {len(seen)}.0f"))

    one = aim(task, start(kernel("1.0f")), SearchConfig(generations=3, patience=None, proposals=6))
    ending = search(archive, one, number_clock, [ScriptedModel(speak, "m")]).run()
    assert ending.best is not None and ending.best.gain == pytest.approx(5.0)
    repairs = [prompt for prompt in seen if "What is wrong with it" in prompt.user]
    assert repairs and all("wrong_value" in prompt.user for prompt in repairs)


def test_lessons_reach_the_next_prompts_and_other_runs(archive: Archive, task: Task) -> None:
    script = Script(["5.0"])
    one = aim(task, start(kernel("1.0f")), SearchConfig(generations=2, proposals=2, evaluate=2))
    search(archive, one, number_clock, [ScriptedModel(script, "m")]).run()
    assert "# Lessons so far" not in script.asked[0].user
    assert "helped:" in script.asked[-1].user and "2.00× its parent" in script.asked[-1].user
    later = Script(["5.0"])
    search(archive, one, number_clock, [ScriptedModel(later, "m")], name="second").run()
    assert "helped:" in later.asked[0].user


def test_what_models_said_is_not_asked_again_and_finished_slots_stay(archive: Archive, task: Task) -> None:
    """A stop in the middle of a generation: half evaluated, all answered."""
    script = Script(["9.0", "8.0", "7.0", "6.0"])
    one = aim(task, start(kernel("1.0f")), SearchConfig(generations=1, proposals=4, evaluate=4))
    left = [3]

    def failing(candidate: Candidate) -> float | Reason:
        left[0] -= 1
        if left[0] < 0:
            raise OSError("the power went off")
        return number_clock(candidate)

    with pytest.raises(OSError, match="power"):
        search(archive, one, failing, [ScriptedModel(script, "m")]).run()
    assert archive.run("r").state is RunState.FAILED and archive.count("r") == 3
    ending = search(archive, one, number_clock, [ScriptedModel(script, "m")]).run()
    assert len(script.asked) == 4 and ending.evaluations == 5
    assert len({entry.candidate for entry in archive.records("r")}) == archive.count("r") == 5


def test_a_database_that_stays_locked_ends_the_run_and_what_was_kept_is_whole(tmp_path: Path, task: Task) -> None:
    path = tmp_path / "archive.sqlite"
    holder = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
    left = [3]

    def locking(candidate: Candidate) -> float | Reason:
        left[0] -= 1
        if left[0] == 0:
            holder.execute("BEGIN IMMEDIATE")
        return CLOCK(candidate)

    with Archive.open(f"sqlite:///{path}", wait_s=0.2) as archive:
        with pytest.raises(ArchiveError, match="locked"):
            search(archive, aim(task, start()), locking).run()
        holder.execute("ROLLBACK")
        kept = archive.count("r")
        assert kept >= 1
        ending = search(archive, aim(task, start()), CLOCK).run()
        assert ending.best is not None and ending.best.gain == pytest.approx(2.5)
        assert len({entry.candidate for entry in archive.records("r")}) == archive.count("r") == 12
    holder.close()

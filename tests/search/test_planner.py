"""What a generation is planned to be, and what a run knows: pure functions of what came before."""

import asyncio

import pytest
from evolving import KERNEL, kernel, start

from warpsmith.archive import Archive, Run
from warpsmith.llm import ModelAnswer, ModelError, Prompt
from warpsmith.records import Direction, Reason
from warpsmith.search.fake import fake_record
from warpsmith.search.ledger import RunLedger
from warpsmith.search.planner import SearchConfig, draw_for, plan
from warpsmith.search.proposals.operators import OPERATORS, load_ideas
from warpsmith.search.proposals.prompts import BrokenKernel, PromptContext
from warpsmith.search.proposals.proposer import Proposer
from warpsmith.search.selection.bandit import Arm, Bandit
from warpsmith.search.slots import Proposal, Slot, SlotOutcome
from warpsmith.search.state import RIGHT, Result, SearchState, add_generations, find_broken, outcome_word
from warpsmith.tasks.formats.own import read_task
from warpsmith.tasks.suite import suite_folder

MODELS = ("m", "n")


def state(models: tuple[str, ...] = MODELS) -> SearchState:
    return SearchState("layernorm", Bandit([Arm(name, operator) for name in models for operator in OPERATORS]))


def result(slot: Slot, told: float | Reason, source: str = KERNEL, name: str = "", usd: float = 0.0) -> Result:
    record = fake_record(start(source).model_copy(update={"macros": dict(slot.macros), "parents": slot.parents}), told)
    proposal = Proposal(slot=slot, outcome=SlotOutcome.EVALUATED, candidate=record.candidate.id, name=name, usd=usd)
    return Result(proposal, record)


def begun(models: tuple[str, ...] = MODELS) -> SearchState:
    """A state with the seed taken in."""
    known = state(models)
    known.add_generation([result(Slot(generation=0, place=0, operator="seed"), 10.0)])
    return known


def test_the_first_generation_is_the_start_alone() -> None:
    (slot,) = plan(state(), SearchConfig(), load_ideas(), MODELS, seed=1, has_start=True)
    assert slot.operator == "seed" and slot.name == "0.0"


def test_without_a_start_drafts_are_asked_of_the_models_in_turn() -> None:
    slots = plan(state(), SearchConfig(drafts=3), load_ideas(), MODELS, seed=1, has_start=False)
    assert [slot.operator for slot in slots] == ["translate"] * 3 and [slot.model for slot in slots] == ["m", "n", "m"]


def test_without_a_start_and_without_a_model_there_is_nothing_to_plan() -> None:
    assert plan(state(()), SearchConfig(), load_ideas(), (), seed=1, has_start=False) == ()


def test_translations_end_when_their_attempts_do() -> None:
    known = state()
    for generation in range(2):
        slot = Slot(generation=generation, place=0, operator="translate", model="m")
        known.add_generation([result(slot, Reason.WRONG_VALUE)])
    assert known.translations == 2 and known.chains[0].evidence
    assert plan(known, SearchConfig(attempts=2), load_ideas(), MODELS, seed=1, has_start=False) == ()
    assert plan(known, SearchConfig(attempts=3), load_ideas(), MODELS, seed=1, has_start=False) != ()


def test_a_generation_has_places_for_models_and_for_the_tuner() -> None:
    slots = plan(begun(), SearchConfig(proposals=8), load_ideas(), MODELS, seed=1, has_start=True)
    assert [slot.place for slot in slots] == list(range(8))
    tuned = [slot for slot in slots if slot.operator == "tune"]
    assert len(tuned) == 2 and all(slot.macros and not slot.model for slot in tuned)
    assert {slot.model for slot in slots if slot.model} == set(MODELS)


def test_without_a_model_all_places_are_the_tuners() -> None:
    slots = plan(begun(()), SearchConfig(proposals=8), load_ideas(), (), seed=1, has_start=True)
    assert [slot.operator for slot in slots] == ["tune"] * 8 and len({str(slot.macros) for slot in slots}) == 8


def test_the_same_state_and_seed_plan_the_same_and_another_seed_does_not() -> None:
    assert plan(begun(), SearchConfig(), load_ideas(), MODELS, 1, True) == plan(
        begun(), SearchConfig(), load_ideas(), MODELS, 1, True
    )
    assert plan(begun(), SearchConfig(), load_ideas(), MODELS, 1, True) != plan(
        begun(), SearchConfig(), load_ideas(), MODELS, 2, True
    )
    assert draw_for(1, "a").random() == draw_for(1, "a").random() != draw_for(1, "b").random()


def test_out_of_budget_nobody_is_asked() -> None:
    known = begun()
    known.out_of_budget = True
    slots = plan(known, SearchConfig(), load_ideas(), MODELS, 1, True)
    assert slots and not any(slot.model for slot in slots)


def test_a_failed_kernel_is_given_to_one_repair() -> None:
    known = begun()
    known.add_generation(
        [result(Slot(generation=1, place=0, operator="improve", model="m"), Reason.WRONG_VALUE, kernel("1.0f"))]
    )
    assert list(known.broken) == ["1.0"]
    slots = [
        slot
        for number in range(6)
        for slot in plan(known, SearchConfig(proposals=12), load_ideas(), MODELS, number, True)
    ]
    repairs = [slot for slot in slots if slot.operator == "repair"]
    assert repairs and all(slot.broken == "1.0" for slot in repairs) and len(repairs) <= 6


def test_the_order_inside_a_generation_changes_nothing() -> None:
    slots = [Slot(generation=1, place=n, operator="improve", model="m") for n in range(4)]
    results = [result(slot, 9.0 - slot.place, kernel(f"{slot.place}.5f"), f"k{slot.place}") for slot in slots]
    one, other = begun(), begun()
    learned, same = one.add_generation(results), other.add_generation(list(reversed(results)))
    assert learned == same and one.bandit == other.bandit
    assert [member.id for member in one.population.members] == [member.id for member in other.population.members]


def test_money_evaluations_and_generations_are_counted() -> None:
    known = begun()
    known.add_generation(
        [result(Slot(generation=1, place=0, operator="improve", model="m"), 5.0, kernel("1.0f"), usd=0.25)]
    )
    assert (known.usd, known.evaluations, known.evolved, known.generation, known.idle) == (0.25, 2, 1, 2, 0)
    lost = Proposal(slot=Slot(generation=2, place=0, operator="improve", model="m"), outcome=SlotOutcome.MODEL_FAILED)
    known.add_generation([Result(lost)])
    assert (known.evolved, known.idle, known.silent) == (2, 1, 1)
    assert known.funnel == {"pass": 2, "model_failed": 1}


def test_a_model_that_pays_is_told_to_the_bandit() -> None:
    known = begun()
    known.add_generation(
        [result(Slot(generation=1, place=0, operator="improve", model="m"), 5.0, kernel("1.0f"), usd=0.5)]
    )
    tally = known.bandit.tallies[Arm("m", "improve")]
    assert tally.pulls == 1 and tally.usd == 0.5 and tally.reward == pytest.approx(1.0)


def test_the_bandit_is_told_a_price_of_zero_only_when_it_is_one() -> None:
    slot = Slot(generation=1, place=0, operator="improve", model="m")
    for free, priced in ((True, 1), (False, 0)):
        known = begun()
        known.add_generation([Result(Proposal(slot=slot, outcome=SlotOutcome.BAD_ANSWER, free=free))])
        assert known.bandit.tallies[Arm("m", "improve")].priced == priced


@pytest.mark.parametrize(("prices", "found"), [((0.0,), 0.0), ((None,), None), ((0.0, 0.25), 0.25)])
def test_a_proposal_knows_whether_its_answers_were_free(prices: tuple[float | None, ...], found: float | None) -> None:
    slot = Slot(generation=1, place=0, operator="translate", model="m")
    known, left = state(), list(prices)
    known.chains[0] = BrokenKernel("int wrong;", "no barrier")

    async def ask(slot: Slot, prompt: Prompt, part: str) -> ModelAnswer:
        return ModelAnswer(text="no kernel", model="m", usd=left.pop(0))

    subject = PromptContext(read_task(suite_folder("layernorm")), Direction.FORWARD, "a GPU")
    proposer = Proposer(subject, "layernorm", known, 1, summaries=len(prices) > 1)
    made = asyncio.run(proposer.fill(slot, ask))
    assert isinstance(made, Proposal) and made.outcome is SlotOutcome.BAD_ANSWER and made.price_usd == found


def test_a_model_that_gave_no_answer_shows_no_price() -> None:
    slot = Slot(generation=1, place=0, operator="translate", model="m")

    async def ask(slot: Slot, prompt: Prompt, part: str) -> ModelAnswer:
        raise ModelError("nobody is there")

    subject = PromptContext(read_task(suite_folder("layernorm")), Direction.FORWARD, "a GPU")
    made = asyncio.run(Proposer(subject, "layernorm", state(), 1).fill(slot, ask))
    assert isinstance(made, Proposal) and made.outcome is SlotOutcome.MODEL_FAILED and made.price_usd is None


@pytest.mark.parametrize("operator", ["rewrite", "repair"])
def test_a_kernel_without_parents_is_held_against_the_best_there_is(operator: str) -> None:
    known = begun()
    known.add_generation([result(Slot(generation=1, place=0, operator="improve", model="m"), 2.0, kernel("1.0f"))])
    (lesson,) = known.add_generation(
        [result(Slot(generation=2, place=0, operator=operator, model="m"), 2.5, kernel("2.0f"))]
    )
    assert lesson.gain == pytest.approx(0.8), "4 times the first kernel, where the best has 5"
    assert known.bandit.tallies[Arm("m", operator)].reward == pytest.approx(RIGHT)


@pytest.mark.parametrize("reason", [Reason.HARNESS, Reason.DISTURBED])
def test_a_mishap_is_nobodys_to_blame_and_is_said(reason: Reason) -> None:
    known = begun()
    told = result(Slot(generation=1, place=0, operator="improve", model="m"), reason, kernel("1.0f"))
    assert known.add_generation([told]) == [] and find_broken(told) is None
    assert not known.broken and not known.bandit.tallies
    assert list(known.failures) == [f"the fake evaluator says {reason}"]


def test_what_a_kernel_did_wrong_is_kept_for_a_repair() -> None:
    slot = Slot(generation=1, place=0, operator="improve", model="m")
    found = result(slot, Reason.WRONG_VALUE)
    assert find_broken(found) is not None and outcome_word(found) == "fail (wrong_value)"
    assert find_broken(Result(Proposal(slot=slot, outcome=SlotOutcome.DUPLICATE))) is None
    stopped = Proposal(slot=slot, outcome=SlotOutcome.STOPPED, detail="no bound", source="int x;")
    broken = find_broken(Result(stopped))
    assert broken is not None and broken.evidence == "no bound"


def test_an_answer_without_a_kernel_is_not_there_to_be_repaired() -> None:
    known = begun()
    slot = Slot(generation=1, place=0, operator="improve", model="m")
    known.add_generation(
        [Result(Proposal(slot=slot, outcome=SlotOutcome.BAD_ANSWER, detail="refusal", source="I am sorry."))]
    )
    assert not known.broken
    first = slot.model_copy(update={"operator": "translate"})
    known.add_generation(
        [Result(Proposal(slot=first, outcome=SlotOutcome.BAD_ANSWER, detail="no_code", source="Well."))]
    )
    assert known.chains[0].evidence == "no_code", "the next attempt is told"


@pytest.mark.parametrize(("told", "left"), [(2.0, []), (Reason.WRONG_VALUE, ["2.0"]), (Reason.HARNESS, ["1.0"])])
def test_a_kernel_is_repaired_once_and_then_what_came_of_it(told: float | Reason, left: list[str]) -> None:
    known = begun()
    known.add_generation(
        [result(Slot(generation=1, place=0, operator="improve", model="m"), Reason.WRONG_VALUE, kernel("1"))]
    )
    repair = Slot(generation=2, place=0, operator="repair", model="m", broken="1.0")
    known.add_generation([result(repair, told, kernel("2.0f"))])
    assert list(known.broken) == left


def test_what_is_remembered_is_bounded() -> None:
    known = begun()
    for generation in range(1, 40):
        slot = Slot(generation=generation, place=0, operator="improve", model="m")
        told = Reason.WRONG_VALUE if generation % 2 else 5.0 + generation
        known.add_generation([result(slot, told, kernel(f"{generation}.0f"))])
    assert len(known.broken) <= 16 and len(known.trials) <= 16 and len(known.population.members) <= 64


def test_a_ledger_gives_back_what_was_kept(archive: Archive) -> None:
    archive.start(Run(name="r", target="t", task="layernorm", direction=Direction.FORWARD, device="fake"))
    ledger = RunLedger(archive, "r")
    seed = result(Slot(generation=0, place=0, operator="seed"), 10.0)
    slots = tuple(Slot(generation=1, place=n, operator="improve", model="m") for n in range(2))
    ledger.save_plan((seed.slot,))
    ledger.save_result(seed)
    ledger.close_generation(0, [])
    ledger.save_plan(slots)
    ledger.save_answer(slots[0], ModelAnswer(text="hello", model="m", usd=0.5, input_tokens=7))
    assert ledger.load_plan(1) == slots and ledger.load_plan(2) == ()
    assert ledger.load_answers(1)["1.0"].text == "hello"
    assert archive.spent("r")[0].usd == 0.5 and archive.spent("r")[0].input_tokens == 7
    again = state()
    add_generations(again, ledger.load_generations())
    assert again.generation == 1 and again.population.best is not None
    assert ledger.load_results(1) == [] and ledger.load_results(0) == [seed]

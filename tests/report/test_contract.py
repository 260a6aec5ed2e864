"""What the report reads of rooms that it must not import: the names of the search's notes, a calibration's JSON."""

from warpsmith.evolve import ledger
from warpsmith.evolve.lessons import Lesson as Learned
from warpsmith.evolve.slot import Outcome, Proposal, Slot
from warpsmith.report import Calibrated, scan
from warpsmith.report.page import Lesson
from warpsmith.verify.aggregate import Weights
from warpsmith.verify.calibrate import Calibration, Matrix


def test_notes_have_the_names_that_the_search_gives_them() -> None:
    assert (ledger.GENERATION, ledger.PROPOSAL, ledger.LESSON) == (scan.GENERATION, scan.PROPOSAL, scan.LESSON)
    assert (Outcome.EVALUATED, Outcome.STOPPED) == (scan.EVALUATED, scan.STOPPED)


def test_a_proposal_and_a_lesson_can_be_read() -> None:
    slot = Slot(generation=1, place=0, operator="improve")
    stopped = Proposal(slot=slot, outcome=Outcome.STOPPED, detail="race")
    assert scan.Proposed.model_validate(stopped.model_dump(mode="json")).outcome == scan.STOPPED
    learned = Learned(task="softmax", what="tuned BLOCK=256", gain=1.5)
    assert Lesson.model_validate(learned.model_dump(mode="json")).gain == 1.5


def test_what_calibrate_prints_can_be_read() -> None:
    one = Matrix(verifier="virtual", caught=7, missed=2, alarms=1, cleared=5, gpu_saved_s=60.0)
    weights = Weights(prior=0.0, verifiers={}, stop=2.0)
    found = Calibration(
        right=6, wrong=9, survivors=1, verifiers=(one,), together=one, without_model=one, operators={}, weights=weights
    )
    read = Calibrated.parse(found.text())
    assert (read.right, read.wrong, read.verifiers[0].caught, read.together.alarms) == (6, 9, 7, 1)

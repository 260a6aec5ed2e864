"""What the report reads of rooms that it must not import: what came of a proposal, a calibration's JSON."""

from warpsmith.evaluation.verify.aggregate import Weights
from warpsmith.evaluation.verify.calibrate import Calibration, Matrix
from warpsmith.report import Calibrated, scan
from warpsmith.search.slot import Proposal, Slot, SlotOutcome


def test_a_proposal_can_be_read() -> None:
    assert (SlotOutcome.EVALUATED, SlotOutcome.STOPPED) == (scan.EVALUATED, scan.STOPPED)
    slot = Slot(generation=1, place=0, operator="improve")
    stopped = Proposal(slot=slot, outcome=SlotOutcome.STOPPED, detail="race")
    assert scan.Proposed.model_validate(stopped.model_dump(mode="json")).outcome == scan.STOPPED


def test_what_calibrate_prints_can_be_read() -> None:
    one = Matrix(verifier="virtual", caught=7, missed=2, alarms=1, cleared=5, gpu_saved_s=60.0)
    weights = Weights(prior=0.0, verifiers={}, stop=2.0)
    found = Calibration(
        right=6, wrong=9, survivors=1, verifiers=(one,), together=one, without_model=one, operators={}, weights=weights
    )
    read = Calibrated.parse(found.text())
    assert (read.right, read.wrong, read.verifiers[0].caught, read.together.alarms) == (6, 9, 7, 1)

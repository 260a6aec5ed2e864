"""Names of the search that the report repeats because it may not import the search."""

from warpsmith.report import scan
from warpsmith.search.slots import Proposal, Slot, SlotOutcome


def test_a_proposal_can_be_read() -> None:
    assert (SlotOutcome.EVALUATED, SlotOutcome.STOPPED) == (scan.EVALUATED, scan.STOPPED)
    slot = Slot(generation=1, place=0, operator="improve")
    stopped = Proposal(slot=slot, outcome=SlotOutcome.STOPPED, detail="race")
    assert scan.ProposalOutcome.model_validate(stopped.model_dump(mode="json")).outcome == scan.STOPPED

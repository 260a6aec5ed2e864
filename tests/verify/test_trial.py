"""The virtual GPU as a verifier."""

import pytest

from warpsmith.records import Reason, StageResult, Verdict
from warpsmith.verify.trial import unless_lacking


@pytest.mark.parametrize(
    ("reason", "verdict"),
    [
        (Reason.UNKNOWN_CALL, Verdict.SKIP),
        (Reason.TIME_LIMIT, Verdict.SKIP),
        (Reason.WRONG_VALUE, Verdict.FAIL),
        (Reason.FINDINGS, Verdict.FAIL),
    ],
)
def test_what_the_virtual_gpu_lacks_is_left_to_the_real_one(reason: Reason, verdict: Verdict) -> None:
    found = StageResult(stage="virtual", verdict=Verdict.FAIL, reason=reason, detail="a sentence")
    assert unless_lacking(found).verdict is verdict

"""Verifiers: what can be found out about a candidate before it costs GPU time, and how much each verifier counts."""

from typing import TYPE_CHECKING

from warpsmith.base import lazy_members

if TYPE_CHECKING:
    from warpsmith.evaluation.verify.aggregate import shipped_weights, weights_path
    from warpsmith.evaluation.verify.calibrate import Calibration, CalibrationSample, Matrix
    from warpsmith.evaluation.verify.pipeline import Verified, Verifiers, verify
    from warpsmith.evaluation.verify.replies import read_attacks, read_replies, reviewed, unseen
    from warpsmith.evaluation.verify.review import ReviewedKernel, ReviewerRole, review_prompt
    from warpsmith.evaluation.verify.specimens import LabelledKernel, read_specimens
    from warpsmith.evaluation.verify.virtual import run_virtual

__getattr__ = lazy_members(__name__)

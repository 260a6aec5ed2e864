"""The stages of one evaluation, in order, on every machine."""

from typing import TYPE_CHECKING

from warpsmith.base.lazy import lazy_members

if TYPE_CHECKING:
    from warpsmith.evaluation.stages.evaluation import Artifact, Evaluation, LaunchCount, Products, Stage
    from warpsmith.evaluation.stages.table import SCREEN, STAGES

__getattr__ = lazy_members(__name__)

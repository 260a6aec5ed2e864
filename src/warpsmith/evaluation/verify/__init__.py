"""Verifiers: what can be found out about a candidate before it costs GPU time, and how much each verifier counts."""

from typing import TYPE_CHECKING

from warpsmith.base.lazy import lazy_members

if TYPE_CHECKING:
    from warpsmith.evaluation.verify.pipeline import Verifiers as Verifiers, verify as verify

__getattr__ = lazy_members(__name__)

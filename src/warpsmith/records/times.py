"""Measured and modelled times as different types."""

from typing import Literal

from warpsmith.records.model import Model


class ModelledTime(Model):
    """A time from the virtual GPU's cost model, never compared with a measured time."""

    kind: Literal["modelled"] = "modelled"
    us: float
    gpu: str
    binding: str = ""


class MeasuredTime(Model):
    """Median time on a real GPU with the interval of its samples."""

    kind: Literal["measured"] = "measured"
    us: float
    low_us: float
    high_us: float
    samples: int

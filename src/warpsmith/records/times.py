"""Times as types: a measured one and a modelled one are never compared."""

from typing import Literal

from warpsmith.records.model import Model


class ModelledTime(Model):
    """A time computed by the virtual GPU's cost model. Never measured, never compared with a measured one."""

    kind: Literal["modelled"] = "modelled"
    us: float
    gpu: str
    binding: str = ""


class MeasuredTime(Model):
    """A time read from a clock on a real GPU: the median and the samples' spread."""

    kind: Literal["measured"] = "measured"
    us: float
    low_us: float
    high_us: float
    samples: int

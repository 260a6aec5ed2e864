"""The only room where a candidate's code runs: a confined worker on the virtual GPU or on a real one."""

from warpsmith.sandbox.observation import Observation, Trouble
from warpsmith.sandbox.run import CudaSandbox, FakeSandbox, Sandbox, VirtualSandbox
from warpsmith.sandbox.values import DTYPES, Raw, Value

__all__ = [
    "DTYPES",
    "CudaSandbox",
    "FakeSandbox",
    "Observation",
    "Raw",
    "Sandbox",
    "Trouble",
    "Value",
    "VirtualSandbox",
]

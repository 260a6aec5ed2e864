"""The only room where a candidate's code runs: a confined worker on the virtual GPU or on a real one."""

from warpsmith.machines.worker.observation import Observation, Trouble
from warpsmith.machines.worker.run import CudaSandbox, FakeSandbox, Sandbox, VirtualSandbox
from warpsmith.machines.worker.values import DTYPES, Raw, Value

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

"""A child process with limits, namespaces, seccomp and Landlock, and the frames it speaks. Knows no kernels."""

from warpsmith.confine.child import Child, Exchanged, Outcome, run, spawn
from warpsmith.confine.collect import Refused, collect
from warpsmith.confine.frames import Fault, Frame, FrameError, FrameReader, FrameWriter
from warpsmith.confine.paths import system_paths
from warpsmith.confine.policy import Limit, Limits, Policy, readable_bytes
from warpsmith.confine.probe import probe

__all__ = [
    "Child",
    "Exchanged",
    "Fault",
    "Frame",
    "FrameError",
    "FrameReader",
    "FrameWriter",
    "Limit",
    "Limits",
    "Outcome",
    "Policy",
    "Refused",
    "collect",
    "probe",
    "readable_bytes",
    "run",
    "spawn",
    "system_paths",
]

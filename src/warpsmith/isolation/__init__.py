"""A child process with limits, namespaces, seccomp and Landlock, and the frames it speaks. Knows no kernels."""

from warpsmith.isolation.child import Child, Exchanged, Outcome, run, spawn
from warpsmith.isolation.collect import Refused, collect
from warpsmith.isolation.frames import Fault, Frame, FrameError, FrameReader, FrameWriter
from warpsmith.isolation.paths import system_paths
from warpsmith.isolation.policy import Limit, Limits, Policy, readable_bytes
from warpsmith.isolation.probe import probe

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

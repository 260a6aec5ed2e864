"""Confined child processes (limits, namespaces, seccomp, Landlock), and the frames that they exchange."""

from typing import TYPE_CHECKING

from warpsmith.base import lazy_members

if TYPE_CHECKING:
    from warpsmith.isolation.child import Child, ChildOutcome, ExchangeResult, run, spawn
    from warpsmith.isolation.collect import RefusedFile, collect_file
    from warpsmith.isolation.frames import (
        HEAD,
        HEADER_BYTES,
        Frame,
        FrameError,
        FrameFault,
        FrameReader,
        FrameWriter,
        encode,
    )
    from warpsmith.isolation.paths import library_paths, machine_paths, system_paths
    from warpsmith.isolation.policy import Limit, Policy, ProcessLimits, readable_bytes
    from warpsmith.isolation.probe import probe_confinement
    from warpsmith.isolation.python_host import PythonHost, answer_requests, take_channel
    from warpsmith.isolation.raising import find_raising_command

__getattr__ = lazy_members(__name__)

"""Artifacts that were tampered with, as another tool, a bad disk or a newer compiler would leave them."""

from pathlib import Path

import pytest
from runtime_artifacts import EIGHT, HERE, LIMITS, artifact

from warpsmith.machines.worker import Observation, VirtualSandbox
from warpsmith.records import Reason


def run(folder: Path, old: bytes, new: bytes) -> Observation:
    """The launch entry of calls.cu with every `old` replaced; lengths are equal, so that the ELF stays whole."""
    assert len(old) == len(new)
    content = artifact(HERE / "calls.cu").read_bytes()
    assert old in content
    changed = folder / "changed.so"
    changed.write_bytes(content.replace(old, new))
    return VirtualSandbox(limits=LIMITS).run(changed, "launch", [EIGHT])


@pytest.mark.parametrize(
    ("old", "new", "reason", "words"),
    [
        (b".version 9.0\n", b".vorsion 9.0\n", Reason.LAUNCH_ERROR, ""),
        (b".target sm_90a", b".target sm_99a", Reason.LAUNCH_ERROR, "compute capability 9.0"),
        (b".visible .entry _Z4bump", b".visible .entry _Z4dump", Reason.LAUNCH_ERROR, "_Z4bump"),
        (b"add.f32", b"odd.f32", Reason.UNKNOWN_INSTRUCTION, "odd.f32"),
        (b"\x50\xed\x55\xba\x01\x00\x10\x00", b"\x51\xed\x55\xba\x01\x00\x10\x00", Reason.LAUNCH_ERROR, "no PTX"),
    ],
)
def test_a_module_that_cannot_be_used_says_why(
    tmp_path: Path, old: bytes, new: bytes, reason: Reason, words: str
) -> None:
    observation = run(tmp_path, old, new)
    assert observation.failure is not None
    assert observation.failure.reason is reason, observation.failure
    assert words in observation.failure.detail


def test_ptx_that_is_cut_short_is_refused(tmp_path: Path) -> None:
    content = artifact(HERE / "calls.cu").read_bytes()
    start = content.index(b".version 9.0\n")
    end = content.index(b"\0", start)
    middle = content.rindex(b"\n", start, (start + end) // 2)
    changed = tmp_path / "short.so"
    changed.write_bytes(content[:middle] + b"\0" * (end - middle) + content[end:])
    observation = VirtualSandbox(limits=LIMITS).run(changed, "launch", [EIGHT])
    assert observation.failure is not None
    assert observation.failure.reason is Reason.LAUNCH_ERROR
    assert observation.failure.detail


def test_compressed_ptx_names_the_flag() -> None:
    squeezed = artifact(HERE / "calls.cu", compressed=True)
    observation = VirtualSandbox(limits=LIMITS).run(squeezed, "launch", [EIGHT])
    assert observation.failure is not None
    assert "--no-compress" in observation.failure.detail

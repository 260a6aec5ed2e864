"""`warpsmith profile` on a machine without a GPU."""

from pathlib import Path

import pytest

import warpsmith
from warpsmith.cli._main import run
from warpsmith.records import ProfileFacts, ProfileSource

SUITE = Path(warpsmith.__file__).parent / "tasks" / "suite"
SEED = SUITE / "swiglu" / "seed_forward.cu"
SMOKE = ("--device", "vgpu", "--case", "smoke-float32")


def test_a_page_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["profile", "swiglu", str(SEED), *SMOKE]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("seed_forward.cu for swiglu, forward, case smoke-float32 on H200 (virtual GPU, modelled)")
    assert "of the roofline" in shown
    assert "is bound by latency: a launch 4 µs" in shown
    assert "ceilings, datasheet" in shown


def test_facts_for_a_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["profile", "swiglu", str(SEED), *SMOKE, "--json"]) == 0
    facts = ProfileFacts.parse(capsys.readouterr().out)
    assert facts.source is ProfileSource.VGPU
    assert facts.kernels[0].registers


def test_a_digest_for_a_prompt(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["profile", "swiglu", str(SEED), *SMOKE, "--digest"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Profile on H200")
    assert len(shown) <= 1501


def test_the_largest_case_that_the_virtual_gpu_can_do_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["profile", "rope", str(SUITE / "rope" / "seed_forward.cu"), "--device", "vgpu", "--json"]) == 0
    assert "smoke" not in ProfileFacts.parse(capsys.readouterr().out).case


def test_a_wrong_kernel_is_not_profiled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernel = tmp_path / "wrong.cu"
    kernel.write_text(SEED.read_text().replace("g / (1.0f + expf(-g))", "g * 0.5f"))
    assert run(["profile", "swiglu", str(kernel), *SMOKE]) == 1
    assert "wrong.cu is not profiled: check: fail (" in capsys.readouterr().out  # on tiny inputs it looks like TF32


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--case", "smok-float32", "--device", "vgpu"], "it has smoke-float32"),
        (["--device", "tpu"], "Device tpu does not exist"),
    ],
)
def test_usage_that_cannot_be_meant(more: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["profile", "swiglu", str(SEED), *more]) == 2
    assert words in capsys.readouterr().err

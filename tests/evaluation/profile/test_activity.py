"""CUPTI's records, and a machine without CUPTI."""

from pathlib import Path

from warpsmith.evaluation.profile.activity import activity, find_cupti, read_activity
from warpsmith.evaluation.profile.ncu import ProfiledKernel, Refusal
from warpsmith.languages.nvcc import Toolchain
from warpsmith.records import MeasuredTime

RECORDS = """\
2000 6000 4,1,1 256,1,1 32 0 1024 _Z4copyPf
1000 1500 1,1,1 32,1,1 16 0 0 _Z5firstPf
8000 14000 4,1,1 256,1,1 32 0 1024 _Z4copyPf
half a li"""


def test_kernels_in_the_order_of_their_launches() -> None:
    first, copy = read_activity(RECORDS)
    assert (first.name, copy.name, copy.launches) == ("first", "copy", 2)
    assert copy.time == MeasuredTime(us=5.0, low_us=4.0, high_us=6.0, samples=2)
    assert (copy.registers, copy.shared_bytes, copy.grid) == (32, 1024, (4, 1, 1))


def test_nothing_recorded_is_nothing() -> None:
    assert read_activity("") == ()


def nowhere(root: Path) -> Toolchain:
    return Toolchain(root / "nvcc", root, root / "libcudart.so.13", root / "g++", "nvcc 13.0", "test")


def test_a_machine_without_cupti_says_what_to_install(tmp_path: Path) -> None:
    subject = ProfiledKernel(Path("/artifact.so"), "", "forward", (), tmp_path)
    found = activity(subject, nowhere(tmp_path), packages=tmp_path)  # a CUDA build of torch brings CUPTI
    assert isinstance(found, Refusal)
    assert "pip install nvidia-cuda-cupti" in found.why


def test_cupti_in_the_extras_of_a_toolkit(tmp_path: Path) -> None:
    extras = tmp_path / "extras" / "CUPTI"
    (extras / "include").mkdir(parents=True)
    (extras / "lib64").mkdir()
    (extras / "include" / "cupti.h").touch()
    (extras / "lib64" / "libcupti.so.13").touch()
    found = find_cupti(nowhere(tmp_path))
    assert found is not None
    assert found.library == extras / "lib64" / "libcupti.so.13"


def test_headers_that_do_not_compile_are_a_reason(tmp_path: Path) -> None:
    (tmp_path / "include").mkdir()
    (tmp_path / "lib64").mkdir()
    (tmp_path / "include" / "cupti.h").write_text("#error of another version\n")
    (tmp_path / "lib64" / "libcupti.so.13").touch()
    found = activity(ProfiledKernel(Path("/artifact.so"), "", "forward", (), tmp_path), nowhere(tmp_path))
    assert isinstance(found, Refusal)
    assert "does not build" in found.why

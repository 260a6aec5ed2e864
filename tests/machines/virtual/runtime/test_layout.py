"""The stand-in against the real thing: structures, names, symbol versions."""

import subprocess
from pathlib import Path

import pytest

from warpsmith.base.native import find_compiler
from warpsmith.languages.nvcc import Toolchain
from warpsmith.machines.virtual import runtime
from warpsmith.machines.virtual.native import FOLDER

HERE = Path(__file__).parent


def exported(library: Path) -> dict[str, str]:
    """The names a library defines, each with its version."""
    listed = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    words = [line.split()[-1] for line in listed.splitlines()]
    return {name: version for name, _, version in (word.partition("@@") for word in words) if "cuda" in name}


def test_our_structures_lie_as_nvidias_do() -> None:
    include = Toolchain.find().root / "include"
    command = [find_compiler("layout"), "-std=c++20", "-fsyntax-only", f"-I{FOLDER / 'cudart'}", f"-isystem{include}"]
    done = subprocess.run([*command, HERE / "layout.cpp"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_call_of_the_real_runtime_is_there_with_its_version() -> None:
    real, ours = exported(Toolchain.find().runtime), exported(runtime(13))
    real = {name: version for name, version in real.items() if not name.startswith("libcudart")}
    assert len(real) > 400
    assert {name: ours.get(name) for name in real} == real


@pytest.mark.parametrize("major", [12, 13])
def test_the_soname_and_the_version_name_the_major(major: int) -> None:
    library = runtime(major)
    assert library.name == f"libcudart.so.{major}"
    assert exported(library)["cudaLaunchKernel"] == f"libcudart.so.{major}"
    shown = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True).stdout
    assert f"soname: [libcudart.so.{major}]" in shown

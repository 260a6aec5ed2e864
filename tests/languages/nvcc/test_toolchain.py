"""Finding nvcc: the three places in order, scripts in the way, and messages that say how to get one."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.languages.nvcc.conftest import kernel

from warpsmith.base import MachineError
from warpsmith.languages.nvcc import Toolchain
from warpsmith.languages.nvcc.toolchain import HOME_VARIABLE, root_of


def test_path_leads_to_the_toolkit() -> None:
    found = Toolchain.find()
    assert (found.root / "include" / "cuda_runtime.h").exists() and found.runtime.name.startswith("libcudart.so.")
    assert found.version.startswith("nvcc ") and found.nvcc == found.root / "bin" / "nvcc"


def test_the_variable_comes_first() -> None:
    root = Toolchain.find().root
    assert Toolchain.find({**os.environ, HOME_VARIABLE: str(root)}).origin == HOME_VARIABLE
    with pytest.raises(MachineError, match=r"/nowhere, which has no bin/nvcc.*PATH"):
        Toolchain.find({**os.environ, HOME_VARIABLE: "/nowhere"})


def test_a_script_is_asked_which_nvcc_it_starts(tmp_path: Path) -> None:
    real = Toolchain.find()
    script = tmp_path / "nvcc"
    script.write_text(f'#!/bin/sh\nexec {real.nvcc} "$@"\n')
    script.chmod(0o755)
    assert root_of(script) == real.root.resolve()
    script.write_text("#!/bin/sh\necho nothing\n")
    with pytest.raises(MachineError, match="starts no nvcc"):
        root_of(script)


def test_without_any_the_message_names_all_three(tmp_path: Path) -> None:
    with pytest.raises(MachineError) as raised:
        Toolchain.find({"PATH": str(tmp_path)}, packages=tmp_path)
    assert all(word in str(raised.value) for word in (HOME_VARIABLE, "PATH", "pip install"))


def test_a_toolkit_without_a_runtime(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "nvcc").write_text("")
    environment = {**os.environ, HOME_VARIABLE: str(tmp_path)}
    with pytest.raises(MachineError, match="nvidia-cuda-runtime"):
        Toolchain.find(environment)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libcudart.so.13").write_text("")
    with pytest.raises(MachineError, match=r"cuda_runtime\.h"):
        Toolchain.find(environment)


WHEELS = [f"nvidia-{name}==13.0.*" for name in ("cuda-nvcc", "cuda-runtime", "cuda-cccl", "cuda-crt", "nvvm")]
COMPILES = """
import sys
from pathlib import Path
from warpsmith.languages.nvcc import Toolchain, compile
from warpsmith.records import Candidate
assert Toolchain.find().origin == "PyPI wheels", Toolchain.find()
for name in sys.argv[1:]:
    made = compile(Candidate(task="none", direction="forward", source=Path(name).read_text()))
    assert made.ok, made.result.detail
"""


@pytest.mark.slow
def test_the_compiler_of_the_wheels(tmp_path: Path) -> None:
    """In an environment of its own, with no nvcc on PATH."""
    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    python = environment / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", "pydantic>=2.7", *WHEELS], check=True)
    here = Path(__file__)
    names = [str(here.parent / "kernels" / name) for name in ("habits.cu", "sweep_module.cu", "sweep_hardware.cu")]
    path = f"{Path(shutil.which('g++') or '/usr/bin/g++').parent}:/bin"
    assert shutil.which("nvcc", path=path) is None
    subprocess.run(
        [python, "-c", COMPILES, *names],
        check=True,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(here.parents[3] / "src")},
    )
    assert kernel("habits.cu").source

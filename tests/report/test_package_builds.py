"""Exported kernels as torch's extension builder compiles them: nvcc here, the builder and its operators on a GPU."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from exporting import BOTH, package, written

from warpsmith.languages.nvcc import Toolchain

# What torch's builder passes of itself, its headers among it.
TORCH_FLAGS = (
    "-DTORCH_EXTENSION_NAME=exported",
    "-DTORCH_API_INCLUDE_EXTENSION_H",
    "-D__CUDA_NO_HALF_OPERATORS__",
    "-D__CUDA_NO_HALF_CONVERSIONS__",
    "-D__CUDA_NO_BFLOAT16_CONVERSIONS__",
    "-D__CUDA_NO_HALF2_OPERATORS__",
    "--expt-relaxed-constexpr",
    "-Xcompiler=-fPIC",
    *(f"-isystem={Path(torch.__file__).parent / 'include' / below}" for below in ("", "torch/csrc/api/include")),
)


def python(words: list[str], folder: Path, **changed: str) -> str:
    """What a Python prints that has the package on its path; it must end well."""
    path = ":".join(part for part in (str(folder / "src"), os.environ.get("PYTHONPATH", "")) if part)
    environment = {**os.environ, "PYTHONPATH": path, **changed}
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    return done.stdout


def symbols(folder: Path, name: str, direction: str = "forward") -> list[str]:
    """The symbols of a package's kernel, compiled for an H200 with the package's own flags after torch's."""
    toolchain = Toolchain.find()
    code = f"import json, {name}; print(json.dumps({name}._building.cuda_flags('90a')))"
    flags = json.loads(python(["-c", code], folder))
    unit, made = folder / "src" / name / "kernels" / f"{direction}_unit.cu", folder / "kernel.o"
    command = [str(toolchain.nvcc), f"-ccbin={toolchain.host}", *TORCH_FLAGS, *flags, "-c", str(unit), "-o", str(made)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return subprocess.run(["nm", "-C", str(made)], capture_output=True, text=True).stdout.splitlines()


@pytest.mark.parametrize(
    ("name", "file"),
    [("layernorm", "seed_forward.cu"), ("max_pool", "seed_forward.plain.cu"), ("rope", "seed_forward.cu")],
)
def test_a_kernel_compiles_beside_torch_and_needs_none_of_it(name: str, file: str, tmp_path: Path) -> None:
    found = symbols(written(package(name, (file,)), tmp_path / "package"), f"{name}_kernel")
    assert any(line.endswith(" T warpsmith_call") for line in found)
    wanted = [line.split(" U ", 1)[1] for line in found if " U " in line]
    assert not [symbol for symbol in wanted if symbol.startswith(("c10::", "at::", "torch::", "Py"))]


def own_tests(name: str, files: tuple[str, ...], place: Path) -> str:
    """What a package's own tests print; they must pass."""
    folder = written(package(name, files), place / "package")
    words = ["-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", str(folder / "tests")]
    return python(words, folder, TORCH_EXTENSIONS_DIR=str(place / "built"))


@pytest.mark.gpu
def test_packages_pass_their_own_tests_on_a_gpu(tmp_path: Path) -> None:
    """All at once: each compiles for most of the time, and whoever wants the GPU alone waits for them."""
    from torch.utils import cpp_extension

    if not cpp_extension.is_ninja_available():
        pytest.skip("torch's extension builder needs ninja: pip install ninja")
    chosen = {"softmax": BOTH, "layernorm": BOTH, "rope": BOTH, "max_pool": ("seed_forward.plain.cu",)}
    with ThreadPoolExecutor() as threads:
        trials = {name: threads.submit(own_tests, name, files, tmp_path / name) for name, files in chosen.items()}
    for name, trial in trials.items():
        said = trial.result()
        assert "passed" in said and "the kernels run on an NVIDIA GPU" not in said, name

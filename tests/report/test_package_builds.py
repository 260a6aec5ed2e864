"""Exported kernels against torch's own headers and under torch's own builder: minutes, or a GPU."""

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import torch
from exporting import BOTH, package, written

from warpsmith.compile import Toolchain

# What torch's headers name of libraries that a bare toolkit does not have.
STAND_INS = {
    "cublas_v2.h": "typedef struct cublasContext* cublasHandle_t; typedef int cublasStatus_t;",
    "cublasLt.h": "typedef void* cublasLtHandle_t;",
    "cusparse.h": "typedef struct cusparseContext* cusparseHandle_t; typedef int cusparseStatus_t;\n"
    "inline const char* cusparseGetErrorString(cusparseStatus_t) { return 0; }",
    "cusolverDn.h": "typedef struct cusolverDnContext* cusolverDnHandle_t;",
    "cusolver_common.h": "typedef int cusolverStatus_t;",
}
# torch without CUDA lacks one generated header; the rest is what torch's builder passes, then what the package does.
TORCH_FLAGS = (
    "-DC10_USING_CUSTOM_GENERATED_MACROS",
    "-DTORCH_EXTENSION_NAME=exported",
    "-std=c++20",
    "-Xcompiler=-fPIC",
    "-D__CUDA_NO_HALF_OPERATORS__",
    "-D__CUDA_NO_HALF_CONVERSIONS__",
    "-D__CUDA_NO_BFLOAT16_CONVERSIONS__",
    "-D__CUDA_NO_HALF2_OPERATORS__",
)


def object_file(source: Path, folder: Path, flags: list[str]) -> Path:
    """The source compiled by nvcc, which hands a .cpp file to the host compiler."""
    toolchain, include = Toolchain.find(), Path(torch.__file__).parent / "include"
    for name, text in STAND_INS.items():
        if toolchain.header(name) is None:
            (folder / name).write_text(f"#pragma once\n{text}\n")
    here = [include, include / "torch/csrc/api/include", sysconfig.get_paths()["include"], source.parent / "include"]
    found = [f"-I{path}" for path in (*here, folder)]
    made = folder / f"{source.stem}.o"
    command = [str(toolchain.nvcc), f"-ccbin={toolchain.host}", *TORCH_FLAGS, *flags, *found, "-c", str(source)]
    done = subprocess.run([*command, "-o", str(made)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return made


def package_flags(folder: Path, name: str) -> list[str]:
    """What the package itself asks of nvcc, for the architecture of an H200."""
    space: dict[str, object] = {"__file__": str(folder / "src" / name / "building.py")}
    exec((folder / "src" / name / "building.py").read_text(), space)
    flags, half = space["FLAGS"], space["WITH_HALF"]
    assert isinstance(flags, list) and isinstance(half, list)
    return [*flags, *half, "-gencode=arch=compute_90a,code=sm_90a"]


@pytest.mark.slow
def test_a_torch_kernel_compiles_against_torch(tmp_path: Path) -> None:
    folder = written(package("layernorm", ("seed_forward.cu",), {"BLOCK": "128"}), tmp_path / "package")
    unit = folder / "src/layernorm_kernel/kernels/forward_unit.cu"
    made = object_file(unit, tmp_path, package_flags(folder, "layernorm_kernel"))
    assert b"PyInit_exported" in made.read_bytes()


@pytest.mark.slow
def test_a_plain_kernel_and_its_wrapper_compile_against_torch(tmp_path: Path) -> None:
    folder = written(package("max_pool", ("seed_forward.plain.cu",)), tmp_path / "package")
    kernels, flags = folder / "src/max_pool_kernel/kernels", package_flags(folder, "max_pool_kernel")
    kernel = object_file(kernels / "forward_unit.cu", tmp_path, flags)
    wrapper = object_file(kernels / "forward_torch.cpp", tmp_path, ["-O1"])
    symbols = [subprocess.run(["nm", path], capture_output=True, text=True).stdout for path in (kernel, wrapper)]
    assert " T forward\n" in symbols[0] and " U forward\n" in symbols[1]


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("name", "files"), [("softmax", BOTH), ("layernorm", BOTH), ("max_pool", ("seed_forward.plain.cu",))]
)
def test_a_package_passes_its_own_tests_on_a_gpu(name: str, files: tuple[str, ...], tmp_path: Path) -> None:
    folder = written(package(name, files), tmp_path / "package")
    environment = {"PYTHONPATH": str(folder / "src"), "TORCH_EXTENSIONS_DIR": str(tmp_path / "built")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder / "tests")]
    done = run_with(command, environment)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "passed" in done.stdout and "the kernels run on an NVIDIA GPU" not in done.stdout


def run_with(command: list[str], changed: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    """A command with some of the environment changed."""
    import os

    before = os.environ.get("PYTHONPATH", "")
    changed["PYTHONPATH"] = ":".join(part for part in (changed["PYTHONPATH"], before) if part)
    return subprocess.run(command, env={**os.environ, **changed}, capture_output=True, text=True)

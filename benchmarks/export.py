"""What the host pays for one call of an exported kernel: Python, ctypes and the kernel's own host code, no GPU.

    python benchmarks/export.py

The kernel has three tensors and a number as arguments and makes one result; its memory is the CPU's.
"""

import ctypes
import importlib.util
import tempfile
import time
from pathlib import Path
from types import ModuleType

import torch

from warpsmith.languages.nvcc import Toolchain, compile
from warpsmith.records import Candidate, Direction
from warpsmith.report.export.package import FORMS

KERNEL = """
#include <torch/extension.h>
torch::Tensor forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, double eps) {
  return torch::empty_like(x);
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
"""
CALLS, ROUNDS = 1000, 7


def calling(folder: Path) -> ModuleType:
    """The module that a package calls its kernels with; the CPU's memory passes for a GPU's."""
    path = folder / "calling.py"
    path.write_text((FORMS / "calling.py.in").read_text())
    spec = importlib.util.spec_from_file_location("exported_calling", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module._device_type = lambda one: 2  # type: ignore[attr-defined]
    return module


def main() -> None:
    made = compile(Candidate(task="any", direction=Direction.FORWARD, source=KERNEL))
    ctypes.CDLL(str(Toolchain.find().runtime), ctypes.RTLD_GLOBAL)
    cpu, x = torch.device("cpu"), torch.randn(8, 8)
    with tempfile.TemporaryDirectory() as folder:
        module = calling(Path(folder))
        library = module.opened(str(made.artifact))
        seconds = []
        for _ in range(ROUNDS):
            started = time.perf_counter()
            for _ in range(CALLS):
                module.call(library, "forward", [x, x, x, 1e-5], cpu, 0)
            seconds.append(time.perf_counter() - started)
    print(f"{min(seconds) / CALLS * 1e6:.1f} µs a call, the best of {ROUNDS} rounds of {CALLS}")


if __name__ == "__main__":
    main()

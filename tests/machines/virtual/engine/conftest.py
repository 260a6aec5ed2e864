"""The engine built once by g++ and driven through ctypes; small PTX and CUDA texts run on it."""

import json
import subprocess
import sys
from ctypes import CDLL, POINTER, byref, c_char_p, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from warpsmith.base import Home, digest
from warpsmith.base.native import build_native
from warpsmith.languages.nvcc import Toolchain
from warpsmith.machines.virtual.native import engine_flags

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # the corpora that lie beside the tests
SOURCES = HERE.parents[3] / "src/warpsmith/machines/virtual/native/engine"
HEADER = ".version 9.0\n.target sm_90a\n.address_size 64\n"


def build_library() -> Path:
    """The engine and the shim as one shared library; the engine's objects are those of the executor."""
    sources = [*sorted(SOURCES.glob("*.cpp")), HERE / "shim.cpp"]
    return build_native("libwarpsmith-engine-tests.so", sources, engine_flags(), shared=True)


def bind(library: CDLL) -> CDLL:
    """Result types of the shim's functions."""
    library.engine_new.restype = c_void_p
    library.engine_new.argtypes = [c_int, c_uint64, c_size_t]
    library.engine_delete.argtypes = [c_void_p]
    library.engine_allocate.restype = c_uint64
    library.engine_allocate.argtypes = [c_void_p, c_size_t, c_char_p]
    library.engine_release.argtypes = [c_void_p, c_uint64]
    library.engine_write.argtypes = [c_void_p, c_uint32, c_uint64, c_void_p, c_size_t]
    library.engine_read.argtypes = [c_void_p, c_uint32, c_void_p, c_uint64, c_size_t]
    library.engine_copy.argtypes = [c_void_p, c_uint32, c_uint64, c_uint64, c_size_t]
    library.engine_fill.argtypes = [c_void_p, c_uint32, c_uint64, c_uint32, c_size_t, c_size_t]
    library.engine_load.argtypes = [c_void_p, c_char_p, c_size_t, POINTER(c_char_p)]
    library.engine_symbol.restype = c_uint64
    library.engine_symbol.argtypes = [c_void_p, c_int, c_char_p, POINTER(c_size_t)]
    library.engine_unordered.argtypes = [c_void_p, c_uint32, c_uint32]
    library.engine_printed.argtypes = [c_void_p]
    library.engine_launch.argtypes = [
        c_void_p,
        c_uint32,
        c_int,
        c_char_p,
        POINTER(c_uint32),
        POINTER(c_uint32),
        c_size_t,
        c_size_t,
        c_int,
        c_void_p,
        c_size_t,
    ]
    for name in ("write", "read", "copy", "fill", "launch", "printed"):
        getattr(library, f"engine_{name}").restype = c_char_p
    return library


@dataclass(frozen=True)
class Outcome:
    """What a launch came to."""

    status: str
    detail: str
    findings: list[dict[str, Any]]
    counters: dict[str, Any]

    @property
    def checkers(self) -> list[str]:
        """The checkers that spoke, in order."""
        return [finding["checker"] for finding in self.findings]


def dims(value: int | tuple[int, ...]) -> Any:
    """One to three sides as the shim takes them."""
    sides = (value,) if isinstance(value, int) else value
    return (c_uint32 * 3)(*sides, *([1] * (3 - len(sides))))


class Buffer:
    """A device allocation with the numpy array it came from."""

    def __init__(self, gpu: "VirtualGpu", array: NDArray[Any], written: bool = True) -> None:
        self.gpu, self.shape, self.dtype = gpu, array.shape, array.dtype
        self.bytes = array.nbytes
        self.address: int = gpu.library.engine_allocate(gpu.handle, array.nbytes, b"")
        if written:
            data = np.ascontiguousarray(array)
            gpu.library.engine_write(gpu.handle, gpu.operation(), self.address, data.ctypes.data, data.nbytes)

    def numpy(self) -> NDArray[Any]:
        """What lies there now; findings of the transfer are kept in `gpu.transfers`."""
        result = np.zeros(self.shape, self.dtype)
        text = self.gpu.library.engine_read(
            self.gpu.handle, self.gpu.operation(), result.ctypes.data, self.address, self.bytes
        )
        self.gpu.transfers += json.loads(text)
        return result


def pack(arguments: tuple[Any, ...]) -> bytes:
    """Kernel parameters with their natural alignment."""
    data = b""
    for argument in arguments:
        value = np.uint64(argument.address) if isinstance(argument, Buffer) else argument
        raw = np.int32(value).tobytes() if isinstance(value, int) else value.tobytes()
        data += b"\0" * (-len(data) % len(raw)) + raw
    return data


@dataclass
class VirtualGpu:
    """One engine; everything it allocates lives until it is closed."""

    library: CDLL
    check: bool = True
    budget: int = 0
    print_limit: int = 1 << 20
    handle: Any = None
    operations: int = 0
    transfers: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.handle = self.library.engine_new(int(self.check), self.budget, self.print_limit)

    def close(self) -> None:
        self.library.engine_delete(self.handle)

    def operation(self) -> int:
        self.operations += 1
        return self.operations

    def array(self, array: NDArray[Any]) -> Buffer:
        return Buffer(self, array)

    def empty(self, shape: int | tuple[int, ...], dtype: Any) -> Buffer:
        return Buffer(self, np.empty(shape, dtype), written=False)

    def load(self, text: str) -> int:
        error = c_char_p()
        data = text.encode()
        module = self.library.engine_load(self.handle, data, len(data), byref(error))
        if module < 0:
            raise ValueError((error.value or b"").decode())
        return int(module)

    def launch(
        self,
        module: int,
        entry: str,
        grid: Any,
        block: Any,
        *arguments: Any,
        shared: int = 0,
        cooperative: bool = False,
        limit: int = 49152,
    ) -> Outcome:
        data = pack(arguments)
        text = self.library.engine_launch(
            self.handle,
            self.operation(),
            module,
            entry.encode(),
            dims(grid),
            dims(block),
            shared,
            limit,
            int(cooperative),
            data,
            len(data),
        )
        return Outcome(**json.loads(text))

    def printed(self) -> str:
        return str(self.library.engine_printed(self.handle).decode())


@pytest.fixture(scope="session")
def library() -> CDLL:
    return bind(CDLL(str(build_library())))


@pytest.fixture
def gpu(library: CDLL) -> Any:
    device = VirtualGpu(library, budget=200_000_000)
    yield device
    device.close()


@pytest.fixture(scope="session")
def make_gpu(library: CDLL) -> Any:
    def make(**options: Any) -> VirtualGpu:
        return VirtualGpu(library, **options)

    return make


REGISTERS = {1: ".b16", 2: ".b16", 4: ".b32", 8: ".b64"}


def evaluation_kernel(instruction: str, sources: list[int], target: int, header: str = "") -> str:
    """A kernel that loads {a}, {b}, {c} for each element, runs the instruction and stores {d}; sizes are in bytes."""
    names = "abcefgh"[: len(sources)]
    parameters = ", ".join(f".param .u64 p_{n}" for n in (*names, "d"))
    lines = [
        f".reg {REGISTERS[size]} %v_{n}; .reg .b64 %q_{n};"
        for n, size in zip((*names, "d"), (*sources, target), strict=True)
    ]
    lines += [".reg .pred %p<8>; .reg .b32 %i<8>; .reg .b64 %o<4>; .reg .b16 %h<8>; .reg .b64 %l<8>; .reg .b32 %t<8>;"]
    lines += ["mov.u32 %i0, %ctaid.x; mov.u32 %i1, %ntid.x; mov.u32 %i2, %tid.x; mad.lo.u32 %i3, %i0, %i1, %i2;"]
    for name, size in zip(names, sources, strict=True):
        lines.append(f"ld.param.u64 %q_{name}, [p_{name}]; mad.wide.u32 %q_{name}, %i3, {size}, %q_{name};")
        lines.append(f"ld.global.b{size * 8} %v_{name}, [%q_{name}];")
    lines.append(instruction.format(**{n: f"%v_{n}" for n in (*names, "d")}))
    lines.append(f"ld.param.u64 %q_d, [p_d]; mad.wide.u32 %q_d, %i3, {target}, %q_d;")
    lines.append(f"st.global.b{target * 8} [%q_d], %v_d; ret;")
    body = "\n  ".join(lines)
    return f"{HEADER}{header}\n.visible .entry k({parameters})\n{{\n  {body}\n}}\n"


@pytest.fixture
def evaluate(gpu: Any) -> Any:
    """Run one instruction on arrays of operands, element by element; the result's bits in the given type."""

    def run(instruction: str, *operands: NDArray[Any], result: Any) -> NDArray[Any]:
        count = len(operands[0])
        padded = -(-count // 32) * 32
        buffers = [gpu.array(np.concatenate([o, np.repeat(o[-1:], padded - count)])) for o in operands]
        out = gpu.empty(padded, result)
        text = evaluation_kernel(instruction, [o.dtype.itemsize for o in operands], np.dtype(result).itemsize)
        outcome = gpu.launch(gpu.load(text), "k", padded // 32, 32, *buffers, out)
        assert (outcome.status, outcome.detail, outcome.findings) == ("done", "", [])
        values: NDArray[Any] = out.numpy()
        return values[:count]

    return run


@pytest.fixture(scope="session")
def nvcc() -> Any:
    """CUDA text to PTX, kept by its hash."""
    toolchain = Toolchain.find()

    def compile_ptx(text: str, arch: str = "compute_90a", flags: tuple[str, ...] = ()) -> str:
        target = Home.locate().cache / "test-artifacts" / f"{digest(arch, text, *flags)}.ptx"
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            source = target.with_suffix(".cu")
            source.write_text(text)
            subprocess.run(
                [
                    toolchain.nvcc,
                    f"-ccbin={toolchain.host}",
                    f"-arch={arch}",
                    "-std=c++17",
                    "-lineinfo",
                    "-ptx",
                    *flags,
                    str(source),
                    "-o",
                    str(target),
                ],
                check=True,
            )
        return target.read_text()

    return compile_ptx

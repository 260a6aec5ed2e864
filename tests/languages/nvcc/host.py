"""A caller of artifacts for tests: lends memory through WsHost, and gives and takes torch tensors of either device."""

import ctypes as c
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from warpsmith.languages.nvcc import Toolchain

CODES = {
    torch.uint8: (1, 8), torch.int8: (0, 8), torch.int16: (0, 16), torch.int32: (0, 32), torch.int64: (0, 64),
    torch.float16: (2, 16), torch.float32: (2, 32), torch.float64: (2, 64), torch.bool: (6, 8), torch.bfloat16: (4, 16),
}  # fmt: skip
TYPES = {code: dtype for dtype, code in CODES.items()}
NONE, TENSOR, TENSORS, FLOAT, INT, BOOL, INTS = range(7)


class DLTensor(c.Structure):
    _fields_ = (
        ("data", c.c_void_p), ("device_type", c.c_int32), ("device_id", c.c_int32), ("ndim", c.c_int32),
        ("code", c.c_uint8), ("bits", c.c_uint8), ("lanes", c.c_uint16), ("shape", c.POINTER(c.c_int64)),
        ("strides", c.POINTER(c.c_int64)), ("byte_offset", c.c_uint64),
    )  # fmt: skip


class Payload(c.Union):
    _fields_ = (
        ("tensor", c.POINTER(DLTensor)), ("tensors", c.POINTER(c.POINTER(DLTensor))), ("f", c.c_double),
        ("i", c.c_int64), ("ints", c.POINTER(c.c_int64)),
    )  # fmt: skip


class Value(c.Structure):
    _fields_ = (("kind", c.c_int32), ("count", c.c_int32), ("payload", Payload))


class Entry(c.Structure):
    _fields_ = (("name", c.c_char_p), ("doc", c.c_char_p), ("signature", c.c_char_p))


GIVES = c.CFUNCTYPE(c.c_void_p, c.c_void_p, c.c_size_t)
TAKES = c.CFUNCTYPE(None, c.c_void_p, c.c_void_p)
HEARS = c.CFUNCTYPE(None, c.c_void_p, c.c_char_p)
ASKS = c.CFUNCTYPE(c.c_void_p, c.c_void_p)
ENCODES = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_void_p, c.c_void_p)


class Host(c.Structure):
    _fields_ = (
        ("version", c.c_uint32), ("device", c.c_int32), ("context", c.c_void_p), ("stream", c.c_void_p),
        ("allocate", GIVES), ("release", TAKES), ("scratch", GIVES), ("complain", HEARS), ("blas", ASKS),
        ("encode_tensor_map", ENCODES),
    )  # fmt: skip


class Caller:
    """One loaded artifact. `calls` gives the status and the results of a function."""

    def __init__(self, artifact: Path) -> None:
        self.runtime = c.CDLL(str(Toolchain.find().runtime), mode=c.RTLD_GLOBAL)
        self.library = c.CDLL(str(artifact))
        self.heard: list[str] = []
        self.kept: list[Any] = []
        self.host = Host(
            version=1,
            allocate=GIVES(lambda _, size: self._device_memory(size)),
            release=TAKES(lambda _, data: None),
            scratch=GIVES(lambda _, size: self._memory(size)),
            complain=HEARS(lambda _, text: self.heard.append(text.decode())),
            encode_tensor_map=ENCODES(lambda _, into, wanted: encode(into, wanted)),
        )

    def entries(self) -> dict[str, str]:
        """Names and signatures as the table at run time has them."""
        table = c.POINTER(Entry)()
        count = self.library.warpsmith_entries(c.byref(table))
        return {table[i].name.decode(): table[i].signature.decode() for i in range(count)}

    def call(self, name: str, *arguments: Any, results: int = 64) -> int | list[Any]:
        """The results, or the negative status."""
        values = (Value * max(len(arguments), 1))(*(self._value(one) for one in arguments))
        out = (Value * results)()
        status = self.library.warpsmith_call(name.encode(), c.byref(self.host), values, len(arguments), out, results)
        return status if status < 0 else [self._result(out[i]) for i in range(status)]

    def _memory(self, size: int) -> int:
        block = c.create_string_buffer(size + 64)
        self.kept.append(block)
        return c.addressof(block) + (-c.addressof(block)) % 64

    def _device_memory(self, size: int) -> int:
        block = torch.empty(size, dtype=torch.uint8, device="cuda")
        self.kept.append(block)
        return block.data_ptr()

    def _value(self, given: Any) -> Value:
        if given is None:
            return Value(NONE, 0)
        if isinstance(given, torch.Tensor):
            return Value(TENSOR, 0, Payload(tensor=c.pointer(self._tensor(given))))
        if isinstance(given, bool):
            return Value(BOOL, 0, Payload(i=int(given)))
        if isinstance(given, int):
            return Value(INT, 0, Payload(i=given))
        if isinstance(given, float):
            return Value(FLOAT, 0, Payload(f=given))
        return self._list(given)

    def _list(self, given: Sequence[Any]) -> Value:
        if isinstance(given[0], int):
            ints = (c.c_int64 * len(given))(*given)
            self.kept.append(ints)
            return Value(INTS, len(given), Payload(ints=ints))
        tensors = (c.POINTER(DLTensor) * len(given))(*(c.pointer(self._tensor(one)) for one in given))
        self.kept.append(tensors)
        return Value(TENSORS, len(given), Payload(tensors=tensors))

    def _tensor(self, given: torch.Tensor) -> DLTensor:
        sizes = (c.c_int64 * max(given.dim(), 1))(*given.shape)
        strides = (c.c_int64 * max(given.dim(), 1))(*given.stride())
        code, bits = CODES[given.dtype]
        made = DLTensor(given.data_ptr(), 2 if given.is_cuda else 1, 0, given.dim(), code, bits, 1, sizes, strides, 0)
        self.kept += [given, sizes, strides, made]
        return made

    def _result(self, value: Value) -> Any:
        if value.kind == FLOAT:
            return value.payload.f
        if value.kind in (INT, BOOL):
            return value.payload.i
        return None if value.kind == NONE else self._read(value.payload.tensor.contents)

    def _read(self, found: DLTensor) -> torch.Tensor:
        """A torch tensor of the host with the sizes, strides and values of a result."""
        sizes, strides = found.shape[: found.ndim], found.strides[: found.ndim]
        reach = 1 + sum((size - 1) * step for size, step in zip(sizes, strides, strict=True)) if 0 not in sizes else 0
        raw = bytearray(max(reach, 1) * found.bits // 8)
        whole = (c.c_char * len(raw)).from_buffer(raw)
        if found.device_type == 1:
            c.memmove(whole, found.data, len(raw))
        elif reach:
            torch.cuda.synchronize()
            assert self.runtime.cudaMemcpy(whole, c.c_void_p(found.data), c.c_size_t(len(raw)), 2) == 0
        return torch.frombuffer(raw, dtype=TYPES[found.code, found.bits]).as_strided(sizes, strides)


class TiledMap(c.Structure):
    _fields_ = (
        ("data_type", c.c_int32), ("rank", c.c_uint32), ("address", c.c_void_p), ("sizes", c.c_void_p),
        ("strides_bytes", c.c_void_p), ("box", c.c_void_p), ("steps", c.c_void_p), ("interleave", c.c_int32),
        ("swizzle", c.c_int32), ("l2_promotion", c.c_int32), ("out_of_bounds_fill", c.c_int32),
    )  # fmt: skip


def encode(into: int, wanted: int) -> int:
    """As a worker on a GPU does it: by the driver."""
    asked = TiledMap.from_address(wanted)
    return int(
        c.CDLL("libcuda.so.1").cuTensorMapEncodeTiled(
            c.c_void_p(into), asked.data_type, c.c_uint32(asked.rank), c.c_void_p(asked.address),
            c.c_void_p(asked.sizes), c.c_void_p(asked.strides_bytes), c.c_void_p(asked.box), c.c_void_p(asked.steps),
            asked.interleave, asked.swizzle, asked.l2_promotion, asked.out_of_bounds_fill,
        )
    )  # fmt: skip

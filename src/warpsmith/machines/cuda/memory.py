"""Device memory that two processes map: the evaluator process allocates it and shares a file descriptor."""

import ctypes
import os
from collections.abc import Sequence
from contextlib import ExitStack
from ctypes import POINTER, byref, c_int, c_size_t, c_ubyte, c_ulonglong, c_ushort, c_void_p
from functools import cache
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from warpsmith.base import DeviceMemoryError, MachineError

if TYPE_CHECKING:
    from torch import Tensor

PINNED, ON_DEVICE, DESCRIPTOR, READ_WRITE = 1, 1, 1, 3  # enumerators of cuda.h
OUT_OF_MEMORY = 2  # as an error of the driver and of the runtime
GRANULE = 2 << 20  # cuMemGetAllocationGranularity on every GPU so far
MOST_ADDRESS = 1 << 47


class _Location(ctypes.Structure):
    _fields_ = (("type", c_int), ("id", c_int))


class _Flags(ctypes.Structure):
    _fields_ = (("compression", c_ubyte), ("rdma", c_ubyte), ("usage", c_ushort), ("reserved", c_ubyte * 4))


class _Properties(ctypes.Structure):
    _fields_ = (
        ("type", c_int),
        ("handles", c_int),
        ("location", _Location),
        ("windows", c_void_p),
        ("flags", _Flags),
    )


class _Access(ctypes.Structure):
    _fields_ = (("location", _Location), ("flags", c_int))


ARGUMENTS: dict[str, list[Any]] = {
    "cuMemCreate": [POINTER(c_ulonglong), c_size_t, POINTER(_Properties), c_ulonglong],
    "cuMemExportToShareableHandle": [c_void_p, c_ulonglong, c_int, c_ulonglong],
    "cuMemAddressReserve": [POINTER(c_ulonglong), c_size_t, c_size_t, c_ulonglong, c_ulonglong],
    "cuMemMap": [c_ulonglong, c_size_t, c_size_t, c_ulonglong, c_ulonglong],
    "cuMemSetAccess": [c_ulonglong, c_size_t, POINTER(_Access), c_size_t],
    "cuMemUnmap": [c_ulonglong, c_size_t],
    "cuMemAddressFree": [c_ulonglong, c_size_t],
    "cuMemRelease": [c_ulonglong],
}


@cache
def _driver() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise MachineError(f"There is no CUDA driver here ({error}); use --device vgpu.") from None
    for name, arguments in ARGUMENTS.items():
        getattr(library, name).argtypes = arguments
    return library


def _do(name: str, *arguments: Any) -> None:
    error = getattr(_driver(), name)(*arguments)
    if error == OUT_OF_MEMORY:
        raise DeviceMemoryError(f"The GPU has no memory left for {name}; other processes hold it.")
    if error:
        raise MachineError(f"The CUDA driver refused {name} with error {error}; another process may hold the memory.")


def are_bases(bases: Sequence[int]) -> bool:
    """Whether memory can lie there; a candidate may claim anything."""
    return all(0 < base < MOST_ADDRESS and base % GRANULE == 0 for base in bases)


def whole_granules(size: int) -> int:
    """Return the size rounded up to the driver's granularity, at least one granule."""
    return (max(size, 1) + GRANULE - 1) // GRANULE * GRANULE


class Arena:
    """One allocation on a GPU, mapped in this process and shareable through `fd`."""

    def __init__(self, size: int, number: int = 0) -> None:
        import torch  # the driver's calls need the primary context that torch makes

        torch.cuda.init()  # type: ignore[no-untyped-call]
        torch.zeros(1, device=f"cuda:{number}")
        self.bytes = whole_granules(size)
        self.fd, self._number = -1, number
        handle, address, fd = c_ulonglong(), c_ulonglong(), c_int()
        where = _Location(ON_DEVICE, number)
        with ExitStack() as undone:  # the last step first, where a later one fails
            _do("cuMemCreate", byref(handle), self.bytes, byref(_Properties(PINNED, DESCRIPTOR, where)), 0)
            undone.callback(_do, "cuMemRelease", handle)
            _do("cuMemAddressReserve", byref(address), self.bytes, 0, 0, 0)
            undone.callback(_do, "cuMemAddressFree", address, self.bytes)
            _do("cuMemMap", address, self.bytes, 0, handle, 0)
            undone.callback(_do, "cuMemUnmap", address, self.bytes)
            _do("cuMemSetAccess", address, self.bytes, byref(_Access(where, READ_WRITE)), 1)
            _do("cuMemExportToShareableHandle", byref(fd), handle, DESCRIPTOR, 0)
            self._undo = undone.pop_all()
        self.address, self.fd = address.value, fd.value

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The memory as torch sees it: bytes."""
        return {"shape": (self.bytes,), "typestr": "|u1", "data": (self.address, False), "version": 3}

    def view(self) -> "Tensor":
        """Return all of it as a tensor of bytes, valid while the arena is open."""
        import torch

        return torch.as_tensor(self, device=f"cuda:{self._number}")

    def close(self) -> None:
        """Give the memory back."""
        if self.fd < 0:
            return
        os.close(self.fd)
        self.fd = -1
        self._undo.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

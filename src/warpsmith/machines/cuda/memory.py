"""Device memory that two processes map."""

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

# CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_DEVICE, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR and
# CU_MEM_ACCESS_FLAGS_PROT_READWRITE. CUDA's virtual memory API is used and not cudaIpc, because a
# descriptor can be passed to a confined child and mapped at a chosen address.
PINNED, ON_DEVICE, DESCRIPTOR, READ_WRITE = 1, 1, 1, 3  # enumerators of cuda.h
OUT_OF_MEMORY = 2  # as an error of the driver and of the runtime
GRANULE = 2 << 20  # cuMemGetAllocationGranularity on every GPU so far
# User addresses of x86-64 end here without five-level page tables.
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


# ctypes passes integers as 32-bit C ints unless a function's argument types are declared: addresses and
# sizes of 64 bits would be cut.
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
    """Load the CUDA driver; raise MachineError without one."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise MachineError(f"There is no CUDA driver here ({error}); use --device vgpu.") from None
    for name, arguments in ARGUMENTS.items():
        getattr(library, name).argtypes = arguments
    return library


def _do(name: str, *arguments: Any) -> None:
    """Call the driver; raise DeviceMemoryError or MachineError."""
    # Lack of memory is an error of its own: the stage is then repeated alone, and never counts as a
    # failure of the candidate.
    error = getattr(_driver(), name)(*arguments)
    if error == OUT_OF_MEMORY:
        raise DeviceMemoryError(f"The GPU has no memory left for {name}; other processes hold it.")
    if error:
        raise MachineError(f"The CUDA driver refused {name} with error {error}; another process may hold the memory.")


def are_bases(bases: Sequence[int]) -> bool:
    """Return whether arenas can lie at these addresses."""
    # The worker reports the addresses, and candidate code shares its process. Every value is checked
    # before another process tries to map memory there.
    return all(0 < base < MOST_ADDRESS and base % GRANULE == 0 for base in bases)


def whole_granules(size: int) -> int:
    """Return a size rounded up to the driver's granularity."""
    return (max(size, 1) + GRANULE - 1) // GRANULE * GRANULE


class Arena:
    """Device memory that is mapped here and shared by descriptor."""

    def __init__(self, size: int, number: int = 0) -> None:
        """Allocate, map and export `size` bytes on GPU `number`."""
        # Reserve, map and set access are separate steps of the driver; a failure undoes the earlier ones
        # in reverse order, since the driver refuses to free an address range that is still mapped.
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
        """Return the memory as bytes, valid until `close`."""
        import torch

        return torch.as_tensor(self, device=f"cuda:{self._number}")

    def close(self) -> None:
        """Unmap and free the memory; a second call does nothing."""
        # The descriptor is closed first. A worker that still maps the memory keeps the allocation alive
        # until that process ends.
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

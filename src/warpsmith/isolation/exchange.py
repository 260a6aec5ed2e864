"""One exchange of bytes, timed by native code."""

import ctypes
import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from warpsmith.base import build_native

SOURCE = Path(__file__).parent / "native" / "exchange.cpp"


@lru_cache(maxsize=4)
def _load_library(home: str | None) -> Callable[..., float]:
    """Build and load the library for one cache folder."""
    # ctypes.CDLL releases the interpreter's lock during a call, so threads of this process do not enter the time.
    library = ctypes.CDLL(str(build_native("libwarpsmith-exchange.so", [SOURCE], shared=True)))
    function: Any = library.warpsmith_exchange
    function.argtypes = (
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_double,
        ctypes.c_double,
    )
    function.restype = ctypes.c_double
    return function  # type: ignore[no-any-return]


def exchange(out: int, data: bytes, into: int, spin_s: float, timeout_s: float) -> float:
    """Write `data` to `out`; return the seconds until `into` is readable, or -1 if closed."""
    return _load_library(os.environ.get("WARPSMITH_HOME"))(out, data, len(data), into, spin_s, timeout_s)

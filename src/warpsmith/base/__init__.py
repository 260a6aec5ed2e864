"""Errors, files, hashing, formulas, order statistics and builds of native parts. Depends on nothing of the package."""

from typing import TYPE_CHECKING

from warpsmith.base.errors import (
    ArchiveError,
    DeviceMemoryError,
    HarnessError,
    MachineError,
    PoolError,
    UnprovenError,
    UsageError,
    WarpsmithError,
)
from warpsmith.base.extent import fits_int64
from warpsmith.base.files import (
    RECORDS_BYTES,
    check_regular,
    check_writable,
    explain_write_errors,
    hold_lock,
    is_locked,
    lock_any,
    read_file,
    read_text,
    write_atomic,
)
from warpsmith.base.formula import evaluate_formula
from warpsmith.base.hashing import digest, digest_files, digest_json
from warpsmith.base.home import Home
from warpsmith.base.lazy import lazy_members
from warpsmith.base.stats import CONFIDENCE, bootstrap_ratio, geomean, median, quantile, spearman
from warpsmith.base.text import escape_controls, find_json_objects, find_nearest, pluralize

__all__ = [
    "CONFIDENCE",
    "RECORDS_BYTES",
    "ArchiveError",
    "DeviceMemoryError",
    "HarnessError",
    "Home",
    "MachineError",
    "PoolError",
    "UnprovenError",
    "UsageError",
    "WarpsmithError",
    "bootstrap_ratio",
    "check_regular",
    "check_writable",
    "digest",
    "digest_files",
    "digest_json",
    "escape_controls",
    "evaluate_formula",
    "explain_write_errors",
    "find_json_objects",
    "find_nearest",
    "fits_int64",
    "geomean",
    "hold_lock",
    "is_locked",
    "lock_any",
    "median",
    "pluralize",
    "quantile",
    "read_file",
    "read_text",
    "spearman",
    "write_atomic",
]

if TYPE_CHECKING:
    from warpsmith.base.lazy import lazy_members
    from warpsmith.base.native import build_native, find_compiler
    from warpsmith.base.text import shell_line

__getattr__ = lazy_members(__name__)

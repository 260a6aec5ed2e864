"""Errors, hashing, atomic files, order statistics, JSON in text. Knows nothing of kernels."""

from typing import TYPE_CHECKING

from warpsmith.base.errors import ArchiveError, HarnessError, MachineError, UsageError, WarpsmithError
from warpsmith.base.extent import fits_int64
from warpsmith.base.files import (
    RECORDS_BYTES,
    check_place,
    check_regular,
    is_locked,
    locked,
    one_of,
    read_file,
    read_text,
    writable,
    write_atomic,
)
from warpsmith.base.formula import evaluate
from warpsmith.base.hashing import digest, digest_files, digest_json
from warpsmith.base.home import Home
from warpsmith.base.lazy import lazy_members
from warpsmith.base.names import nearest, plural
from warpsmith.base.objects import json_objects
from warpsmith.base.stats import bootstrap_ratio, geomean, median, quantile, spearman
from warpsmith.base.visible import visible

__all__ = [
    "RECORDS_BYTES",
    "ArchiveError",
    "HarnessError",
    "Home",
    "MachineError",
    "UsageError",
    "WarpsmithError",
    "bootstrap_ratio",
    "check_place",
    "check_regular",
    "digest",
    "digest_files",
    "digest_json",
    "evaluate",
    "fits_int64",
    "geomean",
    "is_locked",
    "json_objects",
    "locked",
    "median",
    "nearest",
    "one_of",
    "plural",
    "quantile",
    "read_file",
    "read_text",
    "spearman",
    "visible",
    "writable",
    "write_atomic",
]

if TYPE_CHECKING:
    from warpsmith.base.lazy import lazy_members
    from warpsmith.base.native import build, find_compiler
    from warpsmith.base.visible import shell_line

__getattr__ = lazy_members(__name__)

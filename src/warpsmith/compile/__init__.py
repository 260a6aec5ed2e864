"""Source to artifact: our headers of torch's names, the toolchain, the cache, the link policy. Runs nothing of it."""

from warpsmith.compile.compiler import Compiled, compile, compile_many
from warpsmith.compile.entries import Entry, read_entries
from warpsmith.compile.options import HEADERS, CompileOptions
from warpsmith.compile.toolchain import Toolchain

__all__ = [
    "HEADERS",
    "CompileOptions",
    "Compiled",
    "Entry",
    "Toolchain",
    "compile",
    "compile_many",
    "read_entries",
]

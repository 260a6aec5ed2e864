"""Source to artifact: our headers of torch's names, the toolchain, the cache, the link policy. Runs nothing of it."""

from warpsmith.languages.nvcc.compiler import Compiled, NvccCompiler, compile, compile_many
from warpsmith.languages.nvcc.entries import Entry, read_entries
from warpsmith.languages.nvcc.options import HEADERS, CompileOptions
from warpsmith.languages.nvcc.toolchain import Toolchain

__all__ = [
    "HEADERS",
    "CompileOptions",
    "Compiled",
    "Entry",
    "NvccCompiler",
    "Toolchain",
    "compile",
    "compile_many",
    "read_entries",
]

"""Compilation by nvcc, without running artifacts."""

from typing import TYPE_CHECKING

from warpsmith.base import lazy_members

if TYPE_CHECKING:
    from warpsmith.languages.nvcc.compiler import Compiled, NvccCompiler, compile, compile_many
    from warpsmith.languages.nvcc.diagnose import SOURCE
    from warpsmith.languages.nvcc.entries import EntryPoint
    from warpsmith.languages.nvcc.options import DEFAULT_ARCH, DIALECT, EXTENDED_LAMBDA, HEADERS, CompileOptions
    from warpsmith.languages.nvcc.source import exported_directions, translation_unit
    from warpsmith.languages.nvcc.toolchain import Toolchain

__getattr__ = lazy_members(__name__)

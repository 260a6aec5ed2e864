"""How a kernel is written and compiled: one folder a language, and `nvcc`, the compiler of CUDA C++."""

from typing import TYPE_CHECKING

from warpsmith.base.lazy import lazy_members

if TYPE_CHECKING:
    from warpsmith.languages.spec import Compiler as Compiler, LanguageSpec as LanguageSpec
    from warpsmith.languages.table import (
        added as added,
        compile_candidate as compile_candidate,
        find_language as find_language,
        language_of as language_of,
        languages as languages,
        skeleton as skeleton,
        suffixes as suffixes,
    )

__getattr__ = lazy_members(__name__)

"""Languages of kernels, one folder each."""

from typing import TYPE_CHECKING

from warpsmith.base import lazy_members

if TYPE_CHECKING:
    from warpsmith.languages.spec import Compiler, LanguageSpec
    from warpsmith.languages.table import (
        add_language,
        compile_candidate,
        find_language,
        language_of,
        languages,
        skeleton,
        suffixes,
    )

__getattr__ = lazy_members(__name__)

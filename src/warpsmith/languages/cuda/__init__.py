"""Shared parts of both CUDA C++ languages: comments, tokens, tunables, skeletons, static rules, mutations."""

from typing import TYPE_CHECKING

from warpsmith.base.lazy import lazy_members

if TYPE_CHECKING:
    from warpsmith.languages.cuda.mutants import Harm, MutationOperator
    from warpsmith.languages.cuda.mutation_operators import OPERATORS
    from warpsmith.languages.cuda.skeleton import plain_skeleton, torch_skeleton
    from warpsmith.languages.cuda.spec import cuda_language
    from warpsmith.languages.cuda.tags import cell
    from warpsmith.languages.cuda.text import code_of, line_of
    from warpsmith.languages.cuda.tokens import Novelty, normal_key
    from warpsmith.languages.cuda.tunables import Space, Tunable, format_macros, read_space, with_macros

__getattr__ = lazy_members(__name__)

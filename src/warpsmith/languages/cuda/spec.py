"""Fields of LanguageSpec that both CUDA C++ languages share."""

import re
from functools import partial

from warpsmith.languages.cuda.mutation_operators import OPERATORS
from warpsmith.languages.cuda.static_rules import run_static_rules
from warpsmith.languages.cuda.tags import tags
from warpsmith.languages.cuda.tokens import tokens
from warpsmith.languages.cuda.tunables import read_space
from warpsmith.languages.nvcc import NvccCompiler
from warpsmith.languages.spec import LanguageSpec

cuda_language: partial[LanguageSpec] = partial(
    LanguageSpec,
    title="a CUDA C++ file",
    suffix=".cu",
    fences=("cuda", "cu", "cpp", "c++", "cc", "c", "cxx", ""),
    comment="//",
    kernel=re.compile(r"__global__|<<<|PYBIND11_MODULE|extern\s+\"C\"|\bcublas\w+\(|\bcudnn\w+\("),
    opening="#include",
    compiler=NvccCompiler(),
    read_space=read_space,
    tokens=tokens,
    tags=tags,
    find_signs=run_static_rules,
    mutation_operators=OPERATORS,
)

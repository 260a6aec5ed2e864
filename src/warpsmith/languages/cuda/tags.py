"""Technique tags of a kernel's text, and the cell that they put a kernel in."""

import re
from collections.abc import Mapping
from functools import lru_cache

from warpsmith.languages.cuda.text import code_of

RULES: Mapping[str, str] = {
    "tensor-core": r"\bwgmma\b|\bwmma::|\bmma\.sync|\bmma_sync\b|\bldmatrix\b",
    "async-copy": r"\bcp\.async|__pipeline_|cuda::memcpy_async|\bcp_async\w*\(|\bmbarrier\b",
    "library": r"\bcublas\w+\(|\bcudnn\w+\(",
    "graph": r"\bcudaGraph\w+\(",
    "cooperative": r"\bcudaLaunchCooperativeKernel\b|\bgrid_group\b|\bthis_grid\(",
    "cluster": r"\b__cluster_dims__\b|\bcluster_group\b|\bthis_cluster\(",
    "shared": r"\b__shared__\b",
    "warp-shuffle": r"\b__shfl\w*_sync\b|\b__reduce_\w+_sync\b",
    "vector-load": r"\b(?:float|int|uint|half|double)[24]\b|\buint[24]\b|\bld\.global(?:\.\w+)*\.v[24]",
    "packed-half": r"\b(?:__half2|half2|__nv_bfloat162|nv_bfloat162)\b",
    "unrolled": r"#\s*pragma\s+unroll",
    "read-only-cache": r"\b__ldg\(|\b__ldcs\(|\b__ldca\(|\bld\.global\.nc",
    "atomic": r"\batomic(?:Add|Max|Min|CAS|Exch)\w*\(",
    "grid-stride": r"\+=[\w<>() *]{0,60}gridDim\.\w+",
    "launch-bounds": r"\b__launch_bounds__\b",
    "fast-intrinsic": r"\b__(?:expf|logf|fdividef|powf|sinf|cosf)\b|\brsqrtf\(|\bex2\.approx",
    "fma": r"\b(?:fmaf|__fmaf_rn|__hfma2?)\(",
    "template-size": r"template\s*<[^>]{0,400}\bint\s+\w+",
}
STRUCTURAL = (
    "tensor-core", "async-copy", "library", "graph", "cooperative", "cluster", "shared", "warp-shuffle", "vector-load",
    "packed-half", "atomic", "grid-stride",
)  # fmt: skip
LAUNCH = re.compile(r"<<<")
_COMPILED = {name: re.compile(rule) for name, rule in RULES.items()}


@lru_cache(maxsize=64)
def tags(source: str) -> tuple[str, ...]:
    """Return the technique tags of a source, and one-launch or many-launches."""
    code = code_of(source, strings=True)
    found = [name for name, rule in _COMPILED.items() if rule.search(code)]
    launches = len(LAUNCH.findall(code))
    return (*found, "one-launch" if launches <= 1 else "many-launches")


def cell(source: str, macros: Mapping[str, str], binding: str) -> str:
    """Return a kernel's cell of the population."""
    # A tuned strategy changes the algorithm, so it is part of the cell; other macros are not.
    strategy = "".join(f"+{name}={value}" for name, value in sorted(macros.items()) if "STRATEGY" in name)
    shown = [tag for tag in tags(source) if tag in STRUCTURAL or tag.endswith(("launch", "launches"))]
    return f"{','.join(shown)}{strategy}|{binding or 'unknown'}"

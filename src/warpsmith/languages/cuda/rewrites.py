"""Rewrites that keep a kernel correct, for variety in the corpus."""

import re
from dataclasses import dataclass

from warpsmith.languages.cuda.text import code_of


@dataclass(frozen=True)
class Rewrite:
    """A pattern with its replacement at every match."""

    name: str
    sentence: str
    pattern: str
    replacement: str


REWRITES = (
    Rewrite("block_of_64", "64 threads a block", r"constexpr int kThreads = \d+", "constexpr int kThreads = 64"),
    Rewrite("block_of_128", "128 threads a block", r"constexpr int kThreads = \d+", "constexpr int kThreads = 128"),
    Rewrite("block_of_512", "512 threads a block", r"constexpr int kThreads = \d+", "constexpr int kThreads = 512"),
    Rewrite("tile_of_16", "tiles of 16 by 16", r"constexpr int kTile = 32", "constexpr int kTile = 16"),
    Rewrite("tall_block", "twice the rows of threads", r"constexpr int kRows = 8", "constexpr int kRows = 16"),
    Rewrite(
        "backwards",
        "the elements of a row from the last to the first",
        r"for \(int64_t i = threadIdx\.x; i < (\w+); i \+= kThreads\)",
        r"for (int64_t i = \1 - 1 - threadIdx.x; i >= 0; i -= kThreads)",
    ),
    Rewrite("butterfly", "shuffles by xor", r"__shfl_down_sync", "__shfl_xor_sync"),
    Rewrite(
        "restrict",
        "pointers that do not alias",
        r"const (scalar_t|float)\* (x|a|b|weight|from|grad_out|q|k|v)(?=[,)])",
        r"const \1* __restrict__ \2",
    ),
    Rewrite("launch_bounds", "a bound on the threads", r"__global__ void ", "__global__ void __launch_bounds__(512) "),
    Rewrite("unrolled", "a loop unrolled by four", r"\n( +)(for \(int (?:k|warp|r) = )", r"\n#pragma unroll 4\n\1\2"),
    Rewrite("extra_barrier", "a barrier more than needed", r"__syncthreads\(\);", "__syncthreads(); __syncthreads();"),
    Rewrite(
        "reciprocal",
        "a product with the inverse instead of a quotient",
        r" / static_cast<float>\((\w+)\)(?=[ ;)])",
        r" * (1.0f / static_cast<float>(\1))",
    ),
    Rewrite("renamed", "another name for a sum", r"\bsum\b", "accumulated"),
    Rewrite(
        "small_grid",
        "a grid of at most sixteen blocks, which loop",
        r"(std::min<int64_t>\(\(count \+ kThreads - 1\) / kThreads, )1 << 20",
        r"\g<1>16",
    ),
)  # fmt: skip


def apply_rewrite(source: str, rewrite: Rewrite) -> str | None:
    """Return the rewritten source, or None if nothing matches."""
    code = code_of(source)
    # Patterns match the code without comments and strings; positions are equal in both texts.
    made, last = [], 0
    for place in re.finditer(rewrite.pattern, code):
        made += [source[last : place.start()], place.expand(rewrite.replacement)]
        last = place.end()
    text = "".join([*made, source[last:]])
    return None if text == source else text

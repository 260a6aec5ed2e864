"""Random C++ functions that mean the same on host and device, and inputs with edge values. Knows no engine."""

import random
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

NAMES = {
    "u8": "unsigned long long", "i8": "long long", "f8": "double",
    "u4": "unsigned", "i4": "int", "f4": "float",
    "u2": "unsigned short", "i2": "short", "u1": "unsigned char", "i1": "signed char",
}  # fmt: skip
WHOLE = [t for t in NAMES if t[0] != "f"]
EDGES = [0.0, -0.0, 1.0, np.inf, -np.inf, np.nan, 1e-40, 3.4e38, 0.5, 2.5, -2.5, 2.0**31, 2.0**63, 65535.5]

# Division and shifts as C++ leaves them undefined are kept out; what is left must agree to the last bit.
PRELUDE = """
#ifdef __CUDACC__
#define BOTH __device__ __noinline__
#define high_i4 __mulhi
#define high_u4 __umulhi
#define high_i8 __mul64hi
#define high_u8 __umul64hi
#define ones __popcll
#define leading __clzll
#else
#include <cmath>
#define BOTH static
static int high_i4(int a, int b) { return int((long long)a * b >> 32); }
static unsigned high_u4(unsigned a, unsigned b) { return unsigned((unsigned long long)a * b >> 32); }
static long long high_i8(long long a, long long b) { return (long long)((__int128)a * b >> 64); }
static unsigned long long high_u8(unsigned long long a, unsigned long long b) { return (unsigned __int128)a * b >> 64; }
static int ones(unsigned long long a) { return __builtin_popcountll(a); }
static int leading(unsigned long long a) { return a ? __builtin_clzll(a) : 64; }
#endif
template <class T> BOTH T over(T a, T b) { return b == 0 || b == T(-1) ? T(7) : T(a / b); }
template <class T> BOTH T rest(T a, T b) { return b == 0 || b == T(-1) ? T(7) : T(a % b); }
"""


def forms(draw: random.Random, kind: str) -> list[str]:
    """What an expression of one type may be; a type in angle brackets stands for an expression of it."""
    name, me = NAMES[kind], f"<{kind}>"
    both = [f"({me} {draw.choice(['<', '<=', '==', '!='])} {me} ? {me} : {me})", f"(({name})<{draw.choice(WHOLE)}>)"]
    if kind[0] == "f":
        end, other = ("f", "f8") if kind == "f4" else ("", "f4")
        rounded = f"{draw.choice(['sqrt', 'fabs', 'floor', 'trunc', 'rint'])}{end}(v_{kind})"
        sums = [f"({me} {sign} {me})" for sign in "+-*/"]
        return [*both, *sums, rounded, f"(({name})<{other}>)", f"fma{end}({me}, {me}, {me})"]
    wrapped, last = NAMES[f"u{kind[1]}"], int(kind[1]) * 8 - 1
    high = draw.choice(["i4", "u4", "i8", "u8"])
    return [
        *both,
        *(f"(({name})(({wrapped}){me} {sign} ({wrapped}){me}))" for sign in "+-*&|^"),
        *(f"{call}(({name}){me}, ({name}){me})" for call in ("over", "rest")),
        f"(({name})(({wrapped}){me} << (<u4> & {last})))",
        f"(({name})({me} >> (<u4> & {last})))",
        f"(({name})high_{high}(<{high}>, <{high}>))",
        f"(({name}){draw.choice(['ones', 'leading'])}(<u8>))",
    ]


def expression(draw: random.Random, kind: str, depth: int) -> str:
    """An expression of one type over the variables v_* and w_*."""
    if depth == 0:
        return draw.choice([f"v_{kind}", f"w_{kind}"])
    form = draw.choice(forms(draw, kind))
    return re.sub(r"<(\w\d)>", lambda match: expression(draw, match[1], depth - 1), form)


def function(draw: random.Random, kind: str, number: int) -> str:
    """Straight, or a loop whose turns differ from thread to thread."""
    parameters = ", ".join(f"{NAMES[t]} v_{t}, {NAMES[t]} w_{t}" for t in NAMES)
    body = f"return {expression(draw, kind, 4)};"
    if draw.random() < 0.4:
        a, b = (expression(draw, kind, 2) for _ in range(2))
        skip, leave = (expression(draw, "u4", 2) for _ in range(2))
        body = f"{NAMES[kind]} r = {a}; for (int k = 0; k < (v_u1 & 7); ++k) {{ if ({skip} & 1) continue; "
        body += f"if ({leave} % 5 == 3) break; v_i4 = (int)((unsigned)v_i4 + k); w_u4 ^= v_i4; r = {b}; }} return r;"
    return f"BOTH {NAMES[kind]} f{number}({parameters}) {{ {body} }}\n"


def program(seed: int, count: int) -> tuple[str, list[str]]:
    """A text for both compilers with `k` or `host`, and the types of its functions."""
    draw = random.Random(seed)
    kinds = [draw.choice(list(NAMES)) for _ in range(count)]
    members = " ".join(f"{NAMES[t]} v_{t}, w_{t};" for t in NAMES)
    passed = ", ".join(f"in.v_{t}, in.w_{t}" for t in NAMES)
    store = f"unsigned long long b = 0; memcpy(&b, &x, sizeof x); out[i * {count} +"
    calls = "".join(f"  {{ auto x = f{n}({passed}); {store} {n}] = b; }}\n" for n in range(count))
    text = "#include <cstring>\n" + PRELUDE + f"struct In {{ {members} }};\n"
    text += "".join(function(draw, kind, n) for n, kind in enumerate(kinds))
    text += '#ifdef __CUDACC__\nextern "C" __global__ void k(const In* from, unsigned long long* out) {\n'
    text += f"  int i = blockIdx.x * blockDim.x + threadIdx.x; In in = from[i];\n{calls}}}\n#else\n"
    text += 'extern "C" void host(const In* from, unsigned long long* out, int n) {\n'
    return text + f"  for (int i = 0; i < n; ++i) {{ In in = from[i];\n{calls}  }}\n}}\n#endif\n", kinds


def inputs(seed: int, count: int) -> NDArray[Any]:
    """Random bits, edge values among them."""
    draw = np.random.default_rng(seed)
    array = np.zeros(count, np.dtype([(f"{v}_{t}", t) for t in NAMES for v in "vw"], align=True))
    for name in array.dtype.names or ():
        form = array.dtype[name]
        any_bits = draw.integers(0, 256, (count, form.itemsize), dtype=np.uint8).view(form)[:, 0]
        top = 1 << (8 * form.itemsize - 1)
        edges = np.array([0, 1, 2, 2 * top - 1, top, top - 1], f"u{form.itemsize}").view(form)
        edges = np.array(EDGES).astype(form) if form.kind == "f" else edges
        array[name] = np.where(draw.random(count) < 0.5, draw.choice(edges, count), any_bits)
    return array

"""Functions that are not in a kernel's text: what a kernel tells printf is never a format of the host's."""

from typing import Any

import numpy as np
import pytest

HEADER = ".version 9.0\n.target sm_90a\n.address_size 64\n"
PRINTS = """.extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);
.global .align 1 .b8 format[{count}] = {{{bytes}}};
.visible .entry k(.param .u64 p)
{{
  .reg .b64 %rd<6>;
  .reg .b32 %r<2>;
  .local .align 8 .b8 arguments[16];
  ld.param.u64 %rd1, [p];
  mov.u64 %rd2, arguments;
  cvta.local.u64 %rd3, %rd2;
  st.local.u64 [arguments], %rd1;
  st.local.u64 [arguments+8], %rd1;
  mov.u64 %rd4, format;
  cvta.global.u64 %rd5, %rd4;
  {{
    .param .b64 a;
    st.param.b64 [a], %rd5;
    .param .b64 b;
    st.param.b64 [b], %rd3;
    .param .b32 r;
    call.uni (r), vprintf, (a, b);
    ld.param.b32 %r1, [r];
  }}
  ret;
}}
"""


def printed(gpu: Any, form: str, value: int) -> str:
    raw = [*form.encode(), 0]
    module = gpu.load(HEADER + PRINTS.format(count=len(raw), bytes=", ".join(map(str, raw))))
    assert gpu.launch(module, "k", 1, 1, np.uint64(value)).status == "done"
    return str(gpu.printed())


@pytest.mark.parametrize("form", ["%nld", "%m%nld", "%3$ld %9$lx", "%Sd", "%100000n%d", "%"])
def test_what_only_the_host_knows_is_text(gpu: Any, form: str) -> None:
    """With such a format the host would write to the argument, or show what lies on its own stack."""
    assert printed(gpu, form, 7).replace("7", "%d") == form


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ("%d|%%|%5ld|%-3u|", "7|%|    7|"),
        ("%08lx", "00000007"),
        ("%hhd %lld", "7 7"),
        ("%*d", "      0"),
        ("%k %d", "%k 7"),
    ],
)
def test_conversions(gpu: Any, form: str, said: str) -> None:
    assert printed(gpu, form, 7).startswith(said)


def test_a_width_of_billions_is_no_work(gpu: Any) -> None:
    assert len(printed(gpu, "%2000000000d|", 7)) == 501
    assert len(printed(gpu, "%*d|", 2_000_000_000)) == 501


def test_a_result_that_nobody_declared_is_not_written(gpu: Any) -> None:
    module = gpu.load(HEADER + ".extern .func malloc;\n.visible .entry k()\n{\n  call.uni malloc;\n  ret;\n}\n")
    assert gpu.launch(module, "k", 1, 32).status == "done"

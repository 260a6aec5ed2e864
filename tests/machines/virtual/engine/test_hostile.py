"""Texts that no compiler makes, with sizes and places chosen against the engine, which refuses them."""

from typing import Any

import numpy as np

HEADER = ".version 9.0\n.target sm_90a\n.address_size 64\n.func f (.param .b8 x) { ret; }\n"


def entry(body: str, more: str = "") -> str:
    return f"{HEADER}.visible .entry k(.param .u64 p) {more}\n{{\n  .reg .b64 %rd<4>;\n{body}\n  ret;\n}}\n"


def outcome(gpu: Any, text: str) -> Any:
    x = gpu.array(np.zeros(64, np.float32))
    return gpu.launch(gpu.load(text), "k", 1, 32, x)


def test_parameters_that_are_not_there(gpu: Any) -> None:
    found = outcome(
        gpu, entry("  ld.param.u64 %rd1, [p];\n  ld.param.u64 %rd2, [p+4096];\n  st.global.u64 [%rd1], %rd2;")
    )
    assert (found.status, found.checkers) == ("faulted", ["out_of_bounds"])
    assert "beyond the 8 bytes there are" in found.findings[0]["message"]


def test_local_memory_beyond_what_a_thread_has(gpu: Any) -> None:
    """2^45 bytes here. With 2^59 a warp would have 2^64, which is none, and any address would be a thread's own."""
    arrays = "".join(f"  .local .align 8 .b64 a{n}[4294967296];\n" for n in range(1 << 10))
    found = outcome(gpu, entry(arrays + "  mov.u64 %rd1, 1;\n  st.local.u64 [a7], %rd1;"))
    assert found.status == "bad_launch"
    assert "local memory of a thread in bytes is" in found.detail


def test_a_call_with_more_than_the_function_takes(gpu: Any) -> None:
    words = f"  .param .align 8 .b8 big[4096];\n  call.uni f, ({', '.join(['big'] * 50)});"
    assert outcome(gpu, entry(words)).status == "unknown"


def test_a_call_with_what_is_in_another_memory(gpu: Any) -> None:
    words = "  .shared .align 8 .b8 s[40000];\n  st.shared.u64 [s], %rd1;\n  call.uni f, (s);"
    assert outcome(gpu, entry(words)).status == "unknown"
    assert outcome(gpu, entry("  call.uni f, (p);")).status == "unknown"


def test_clusters_of_no_blocks(gpu: Any) -> None:
    found = outcome(gpu, entry("", ".reqnctapercluster 1, 0, 1"))
    assert found.status == "bad_launch" and "side of 0 blocks" in found.detail
    wrapped = gpu.load(entry("", ".reqnctapercluster 65536, 32768, 2"))
    x = gpu.array(np.zeros(64, np.float32))
    assert "blocks in a cluster" in gpu.launch(wrapped, "k", (65536, 32768, 2), 32, x).detail


def test_a_branch_beyond_its_list(gpu: Any) -> None:
    words = "  .reg .b32 %r<2>;\n  mov.u32 %r1, {index};\nlist: .branchtargets A, B;\n  brx.idx %r1, list;\nA:\nB:"
    assert outcome(gpu, entry(words.format(index=1))).status == "done"
    found = outcome(gpu, entry(words.format(index=2)))
    assert found.status == "unknown"
    assert "brx.idx with the index 2 into a list of 2 targets" in found.detail

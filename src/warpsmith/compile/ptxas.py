"""What `ptxas -v` says of each kernel, as resources. Knows nothing else of the compiler's output."""

import re

from warpsmith.records import KernelResources

KERNEL = re.compile(r"ptxas info\s+: Compiling entry function '([^']+)' for '[^']+'")
STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
FIELDS = {
    "registers": re.compile(r"Used (\d+) registers"),
    "barriers": re.compile(r"used (\d+) barriers"),
    "shared_bytes": re.compile(r"(\d+) bytes smem"),
    "constant_bytes": re.compile(r"(\d+) bytes cmem"),
}


def read_resources(said: str) -> tuple[KernelResources, ...]:
    """One row a kernel; kernels keep the order of their names, so that a record does not depend on ptxas's order."""
    pieces = KERNEL.split(said)[1:]
    rows = {name: _resources(name, text) for name, text in zip(pieces[::2], pieces[1::2], strict=True)}
    return tuple(rows[name] for name in sorted(rows))


def _resources(name: str, text: str) -> KernelResources:
    stack = STACK.search(text)
    frame, stores, loads = (int(value) for value in stack.groups()) if stack else (0, 0, 0)
    counts = {field: sum(int(value) for value in pattern.findall(text)) for field, pattern in FIELDS.items()}
    return KernelResources(name=name, stack_bytes=frame, spill_store_bytes=stores, spill_load_bytes=loads, **counts)

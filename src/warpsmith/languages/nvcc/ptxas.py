"""What `ptxas -v` says of each kernel, as resources. Knows nothing else of the compiler's output."""

import re

from warpsmith.records import KernelResources

KERNEL = re.compile(r"^ptxas info\s+: Compiling entry function '([^'\n]+)' for '[^'\n]+'$", re.MULTILINE)
COUNT = r"\b(\d{1,9})"
STACK = re.compile(rf"{COUNT} bytes stack frame, {COUNT} bytes spill stores, {COUNT} bytes spill loads")
FIELDS = {
    "registers": re.compile(rf"Used {COUNT} registers"),
    "barriers": re.compile(rf"used {COUNT} barriers"),
    "shared_bytes": re.compile(rf"{COUNT} bytes smem"),
    "constant_bytes": re.compile(rf"{COUNT} bytes cmem"),
}


def read_resources(said: str) -> tuple[KernelResources, ...]:
    """One row a kernel; kernels keep the order of their names, so that a record does not depend on ptxas's order."""
    pieces = KERNEL.split(said)[1:]
    rows: dict[str, KernelResources] = {}
    for name, text in zip(pieces[::2], pieces[1::2], strict=True):
        found = _resources(name, text)
        rows[name] = _worse(rows.get(name, found), found)
    return tuple(rows[name] for name in sorted(rows))


def _worse(one: KernelResources, other: KernelResources) -> KernelResources:
    """The most of each: ptxas tells of a kernel once, and a source can have the compiler print what looks like it."""
    counts = one.model_dump(exclude={"name"})
    return one.model_copy(update={field: max(count, getattr(other, field)) for field, count in counts.items()})


def _resources(name: str, text: str) -> KernelResources:
    stack = STACK.search(text)
    frame, stores, loads = (int(value) for value in stack.groups()) if stack else (0, 0, 0)
    counts = {field: sum(int(value) for value in pattern.findall(text)) for field, pattern in FIELDS.items()}
    return KernelResources(name=name, stack_bytes=frame, spill_store_bytes=stores, spill_load_bytes=loads, **counts)

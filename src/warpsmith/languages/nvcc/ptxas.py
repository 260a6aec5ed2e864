"""Resources of kernels in the output of `ptxas -v`."""

import re

from warpsmith.languages.nvcc.bounds import check_names

KERNEL = re.compile(r"^ptxas info\s+: Compiling entry function '([^'\n]+)' for '[^'\n]+'$", re.MULTILINE)
COUNT = r"\b(\d{1,9})"
STACK = re.compile(rf"{COUNT} bytes stack frame, {COUNT} bytes spill stores, {COUNT} bytes spill loads")
FIELDS = {
    "registers": re.compile(rf"Used {COUNT} registers"),
    "barriers": re.compile(rf"used {COUNT} barriers"),
    "shared_bytes": re.compile(rf"{COUNT} bytes smem"),
    "constant_bytes": re.compile(rf"{COUNT} bytes cmem"),
}


def resource_rows(said: str) -> dict[str, dict[str, int]]:
    """Return resources by kernel. Raise Exceeded beyond a bound."""
    pieces = KERNEL.split(said)[1:]
    check_names(list(dict.fromkeys(pieces[::2])), "kernels")
    rows: dict[str, dict[str, int]] = {}
    for name, text in zip(pieces[::2], pieces[1::2], strict=True):
        found = _resources(text)
        rows[name] = _maxima(rows.get(name, found), found)
    return dict(sorted(rows.items()))


def _maxima(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    """Return the larger value of each field."""
    # ptxas reports a kernel once; a source can make the compiler print lines that look like a report.
    return {field: max(count, other[field]) for field, count in one.items()}


def _resources(text: str) -> dict[str, int]:
    """Return the resources in ptxas's text about one kernel."""
    stack = STACK.search(text)
    frame, stores, loads = (int(value) for value in stack.groups()) if stack else (0, 0, 0)
    # Several amounts (such as constant banks) stand in one report, so they are summed.
    counts = {field: sum(int(value) for value in pattern.findall(text)) for field, pattern in FIELDS.items()}
    return {"stack_bytes": frame, "spill_store_bytes": stores, "spill_load_bytes": loads, **counts}

"""The table of a kernel's cases: its times beside torch's. Knows no archive and no markup."""

from collections.abc import Sequence

from warpsmith.report.blocks import Table
from warpsmith.report.page import CaseRow
from warpsmith.report.words import error, interval, micro, percent


def case_table(cases: Sequence[CaseRow]) -> Table:
    """A row a case; torch's modes and the call time have a column where some case has them."""
    modes = tuple(dict.fromkeys(mode for case in cases for mode in case.baselines))
    calls = any(case.call_us is not None for case in cases)
    head, told = ("case", "for", "shape", "type"), ("speedup", "of roofline")
    columns = (*head, "time", *(("call",) if calls else ()), *told, *modes, "error / bound")
    rows = tuple(_row(case, modes, calls) for case in cases)
    return Table(columns, rows, frozenset(columns[len(head) :]))


def _row(case: CaseRow, modes: Sequence[str], calls: bool) -> tuple[str, ...]:
    ratio = case.speedup
    fast = f"{interval(ratio.value, ratio.low, ratio.high)} {case.claim or ''}".strip() if ratio else "–"
    call = (micro(case.call_us),) if calls else ()
    torch = tuple(micro(case.baselines.get(mode)) for mode in modes)
    head = (case.name, case.group, case.shape, case.dtype, _time(case))
    return *head, *call, fast, percent(case.roofline), *torch, error(case.error)


def _time(case: CaseRow) -> str:
    """The median with its spread; a modelled time has none."""
    if case.kind == "modelled":
        return f"{micro(case.us)} modelled"
    if case.low_us is None or case.high_us is None:
        return micro(case.us)
    return f"{micro(case.us)} ({case.low_us:.4g}–{case.high_us:.4g})"

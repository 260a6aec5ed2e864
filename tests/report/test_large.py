"""Ten thousand records: how long and how large, on the benchmark's own run."""

import importlib.util
import time
from pathlib import Path

from warpsmith.archive import Archive
from warpsmith.report import render_html, report, report_document
from warpsmith.report.tree import MOST_NODES

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "report.py"
RECORDS, MOST_S, MOST_BYTES = 10_000, 5.0, 10_000_000


def test_ten_thousand_records_are_a_page_in_seconds() -> None:
    spec = importlib.util.spec_from_file_location("report_benchmark", BENCHMARK)
    assert spec is not None and spec.loader is not None
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    with Archive.open("sqlite://") as archive:
        benchmark.fill(archive, "large", RECORDS)
        start = time.process_time()  # what others do on this machine is not its time
        page = report(archive, ["large"])
        text = render_html(report_document(page))
        seconds = time.process_time() - start
    assert seconds <= MOST_S and len(text.encode()) <= MOST_BYTES
    assert page.runs[0].evaluations == RECORDS and len(page.runs[0].lineage) == MOST_NODES
    assert page.runs[0].progress.scored == 8000 and len(page.runs[0].left_out) == 2
    assert "9700 of 10000 kernels are not in the lineage tree" in text

"""Filters over many tasks at once."""

from pathlib import Path

from warpsmith.tasks.many import filter_many
from warpsmith.tasks.target import find_all

FOREIGN = Path(__file__).parent.parent / "foreign"


def test_reports_come_in_order_and_a_broken_task_is_an_entry(tmp_path: Path) -> None:
    broken = tmp_path / "0_Broken.py"
    broken.write_text("class Model: pass\ndef get_inputs(): pass\n")
    targets = (*find_all(str(broken)), *find_all(str(FOREIGN / "kernelbench"))[:1], *find_all("softmax"))
    found = list(filter_many(targets, workers=2))
    assert [entry.target for entry in found] == list(targets)
    assert [entry.report.task for entry in found if entry.report] == ["1_Row_scale", "softmax"]
    assert found[0].error.startswith(f"{broken}: Model is a type, not a class of torch.nn.Module")

"""Smaller cases of a foreign task for the virtual GPU and the filters, checked on meta tensors."""

from collections.abc import Collection, Mapping, Sequence

from warpsmith.records import Case, Group
from warpsmith.tasks.inspection.source import Source
from warpsmith.tasks.inspection.survey import runs_on_meta

BATCH = 4  # two rows are a degenerate batch for a batch normalization
SIDE = 32  # a warp: enough to show what a kernel does with a row


def smaller_axes(axes: Mapping[str, int], free: Collection[str]) -> Sequence[Mapping[str, int]]:
    """Return sizes cut to several degrees, smallest first; only axes that no parameter's shape uses."""
    batch = {name: BATCH for name in free if "batch" in name.lower() and axes[name] > BATCH}
    sides = {name: SIDE for name in free if name not in batch and axes[name] > SIDE}
    tried = [{**axes, **batch, **sides}, {**axes, **batch}]
    return [sizes for sizes in tried if sizes != axes]


def smoke_case(source: Source, given: Case, options: Sequence[Case]) -> Case:
    """Return the first option that runs, else the given case, named and grouped as smoke."""
    chosen = next((case for case in options if runs_on_meta(source, case)), given)
    return chosen.model_copy(update={"name": "smoke", "group": Group.SMOKE})

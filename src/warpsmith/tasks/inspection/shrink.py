"""Smaller cases of a foreign task, for the virtual GPU and the filters: its free sizes cut, checked on meta tensors."""

from collections.abc import Collection, Mapping, Sequence

from warpsmith.records import Case, Group
from warpsmith.tasks.inspection.source import Source
from warpsmith.tasks.inspection.survey import runs_weightless

BATCH = 4  # two rows are a degenerate batch for a batch normalization
SIDE = 32  # a warp: enough to show what a kernel does with a row


def smaller(axes: Mapping[str, int], free: Collection[str]) -> Sequence[Mapping[str, int]]:
    """The sizes cut further or less far, smallest first; only free ones, which no parameter's shape depends on."""
    batch = {name: BATCH for name in free if "batch" in name.lower() and axes[name] > BATCH}
    sides = {name: SIDE for name in free if name not in batch and axes[name] > SIDE}
    tried = [{**axes, **batch, **sides}, {**axes, **batch}]
    return [sizes for sizes in tried if sizes != axes]


def smoke(source: Source, given: Case, options: Sequence[Case]) -> Case:
    """The first option that runs, else the case as it was given; named and grouped as smoke either way."""
    chosen = next((case for case in options if runs_weightless(source, case)), given)
    return chosen.model_copy(update={"name": "smoke", "group": Group.SMOKE})

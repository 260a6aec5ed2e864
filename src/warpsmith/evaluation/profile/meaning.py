"""What a metric says of a kernel, in a few words, for whoever has to make it faster. Decides nothing."""

from collections.abc import Mapping

from warpsmith.evaluation.profile.units import metric
from warpsmith.records import Metric

# A bound is named by its resource: the least time that a launch needs there, whatever else it does.
BOUNDS: Mapping[str, str] = {
    "dram": "the distinct bytes that it reads and writes",
    "l2": "sectors that the L1 does not hold",
    "stores": "stored sectors, those filled in part read again",
    "atomics": "atomics that wait for each other in the L2",
    "l1": "sectors through the load and store path",
    "shared": "turns of shared memory, bank conflicts among them",
    "issue": "instructions of all warps through the schedulers",
    "latency": "the longest warp, each step waiting for the last",
}
OTHERS: Mapping[str, str] = {
    "a launch": "what starting a kernel costs",
    "sectors a request": "4 where each thread touches its own next 4 bytes, 16 where 16",
    "bank conflicts a launch": "turns of shared memory beyond one a request",
    "occupancy": "warps that are there to hide waiting",
}
PIPE = " pipe"


def meaning(one: Metric) -> str:
    """Why a metric matters; empty for one whose name says it."""
    resource = one.name.removesuffix(" bound")
    if resource == one.name:
        return OTHERS.get(one.name.partition(",")[0], "")
    if resource.endswith(PIPE):
        return f"{resource.removesuffix(PIPE)} instructions"
    return BOUNDS.get(resource, "")


def told(one: Metric) -> str:
    """Name, value, unit and why it matters."""
    why = meaning(one)
    return f"{metric(one)}: {why}" if why else metric(one)

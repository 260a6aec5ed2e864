"""What confinement this machine grants, found by trying it."""

from warpsmith.base import HarnessError
from warpsmith.isolation.child import run
from warpsmith.isolation.paths import system_paths
from warpsmith.isolation.policy import Policy, ProcessLimits
from warpsmith.records import Confined


def probe_confinement(devices: bool = False) -> Confined:
    """Start a trivial child and say what it got and what was refused."""
    policy = Policy(read=system_paths(), limits=ProcessLimits(wall_s=10), devices=devices)
    outcome = run(["true"], policy)
    if not outcome.ok:
        raise HarnessError(f"The probe of confinement failed: {outcome.sentence(policy)}.")
    return outcome.confined

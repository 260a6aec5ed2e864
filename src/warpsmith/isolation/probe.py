"""The confinement that this machine grants, found with a trivial child."""

from warpsmith.base import HarnessError
from warpsmith.isolation.child import run
from warpsmith.isolation.paths import system_paths
from warpsmith.isolation.policy import Policy, ProcessLimits
from warpsmith.records import Confined


def probe_confinement(devices: bool = False) -> Confined:
    """Return a trivial child's confinement. Raise HarnessError otherwise."""
    policy = Policy(read=system_paths(), limits=ProcessLimits(wall_s=10), devices=devices)
    outcome = run(["true"], policy)
    if not outcome.ok:
        raise HarnessError(f"The probe of confinement failed: {outcome.describe(policy)}.")
    return outcome.confined

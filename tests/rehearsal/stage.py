"""The options and marks that rehearsals share."""

import pytest

from warpsmith.evaluation import EvaluationConfig
from warpsmith.machines.rehearsed import RehearsedMachine
from warpsmith.records import Group

# A small evaluation: one case is timed.
SEARCH = EvaluationConfig(device=RehearsedMachine.kind, cases=(Group.SMOKE,), most_cases=1)
ON_A_GPU = pytest.param("gpu", marks=[pytest.mark.gpu, pytest.mark.leases])

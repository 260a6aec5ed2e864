"""Every limit stops the child and is named with its bound."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from warpsmith.isolation import ChildOutcome, Limit, Policy, ProcessLimits

MIB = 1 << 20
Attempt = Callable[..., ChildOutcome]


def test_a_sleeper_is_stopped_at_the_wall_clock(attempt: Attempt) -> None:
    outcome = attempt("sleep", "30", wall_s=0.2)
    assert outcome.stopped is Limit.WALL
    assert 0.2 <= outcome.seconds < 2


def test_a_spinner_is_stopped_at_its_processor_time(attempt: Attempt) -> None:
    outcome = attempt("spin", cpu_s=1)
    assert outcome.stopped is Limit.CPU
    assert 0.9 <= outcome.cpu_s < 3


@pytest.mark.parametrize("what", ["private_pages", "shared_pages", "forked_pages"])
def test_memory_that_is_used_is_bounded_over_the_whole_tree(attempt: Attempt, what: str) -> None:
    outcome = attempt(what, memory_bytes=128 * MIB)
    assert outcome.stopped is Limit.MEMORY
    assert 100 * MIB < outcome.peak_bytes < 1024 * MIB


def test_memory_in_the_private_tmp_counts(attempt: Attempt, needs: Callable[[str], None]) -> None:
    needs("private_tmp")
    assert attempt("big_file", "/tmp/big", memory_bytes=64 * MIB).stopped is Limit.MEMORY


def test_a_mapping_above_the_limit_is_stopped_before_it_is_used(attempt: Attempt) -> None:
    outcome = attempt("one_mapping", str(100 << 30))
    assert outcome.stopped is Limit.MEMORY
    assert outcome.peak_bytes < 64 * MIB


def test_address_space_is_free_where_the_policy_says_so(attempt: Attempt) -> None:
    assert attempt("reservation", str(1 << 40)).stdout == b"ok\n"
    assert attempt("one_mapping", str(1 << 30), address_space=False).stdout == b"ok\n"


def test_a_fork_bomb_is_stopped(attempt: Attempt) -> None:
    outcome = attempt("fork_bomb", processes=64)
    assert outcome.stopped is Limit.PROCESSES
    assert outcome.peak_tasks <= 64 + 16


def test_gigabytes_of_output_are_cut(attempt: Attempt) -> None:
    outcome = attempt("print", output_bytes=100_000)
    assert outcome.stopped is Limit.OUTPUT
    assert len(outcome.stdout) == 100_000


def test_output_up_to_the_limit_is_kept(attempt: Attempt) -> None:
    outcome = attempt("environment", output_bytes=10_000)
    assert outcome.stopped is None
    assert outcome.stdout.endswith(b"ok\n")


def test_a_file_beyond_the_limit_is_stopped(attempt: Attempt) -> None:
    assert attempt("big_file", "big", file_bytes=2 * MIB).stopped is Limit.FILE_SIZE


def test_many_files_together_are_stopped(attempt: Attempt, policy: Policy, workspace: Path) -> None:
    (workspace / "before").write_bytes(bytes(8 * MIB))
    allowed = replace(policy, write=(workspace,))
    outcome = attempt("many_files", str(workspace), policy=allowed, file_bytes=4 * MIB)
    assert outcome.stopped is Limit.FILE_SIZE
    assert len(list(workspace.iterdir())) < 2000


@pytest.mark.parametrize("limit", list(Limit))
def test_a_sentence_names_the_bound(limit: Limit) -> None:
    limits = ProcessLimits(
        wall_s=1.5, cpu_s=2, memory_bytes=3 << 30, output_bytes=4096, processes=5, open_files=6, file_bytes=7 * MIB
    )
    bounds = {Limit.WALL: "1.5 s", Limit.CPU: "2 s", Limit.MEMORY: "3 GiB", Limit.OUTPUT: "4 KiB"}
    bounds |= {Limit.PROCESSES: "5 processes", Limit.FILE_SIZE: "7 MiB", Limit.KILLED: "judge"}
    assert bounds[limit] in limit.describe(limits)


@pytest.mark.parametrize("name", ["wall_s", "memory_bytes", "processes"])
def test_a_limit_of_nothing_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"limit {name} is 0"):
        ProcessLimits(**{name: 0})


def test_a_profile_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="'loose' does not exist"):
        Policy(read=(Path("/usr"),), seccomp="loose")

"""The worker's own filter: computing goes on, loading until it is closed, nothing else."""

import errno
import subprocess
from pathlib import Path

import pytest

from warpsmith.base.native import build_native
from warpsmith.isolation.launcher import NATIVE

PROGRAMS = Path(__file__).parent / "programs"


def answer(phase: str, what: str) -> str:
    program = build_native("sealed", [PROGRAMS / "sealed.cc"], flags=["-pthread", "-ldl"], includes=[NATIVE])
    done = subprocess.run([program, phase, what], capture_output=True, text=True)
    assert done.returncode == 0, done
    return "ok" if done.stdout == "ok\n" else errno.errorcode[int(done.stdout)]


@pytest.mark.parametrize("what", ["compute", "open", "dlopen"])
def test_while_loading_files_are_read(what: str) -> None:
    assert answer("load", what) == "ok"


@pytest.mark.parametrize("what", ["create", "fork", "exec", "socket", "kill", "thread", "unlink", "ptrace"])
@pytest.mark.parametrize("phase", ["load", "closed"])
def test_what_no_kernel_needs_is_refused(phase: str, what: str) -> None:
    assert answer(phase, what) in ("EPERM", "ENOSYS")


# Each would let the kernel run code of the process, or send it a signal, while it waits for a request.
LATER = (
    "handler timer interval other_stack signalfd listener set_limit signal_self alarm rseq userfaultfd io_setup "
    "io_uring mq_notify dispatch F_SETOWN F_SETOWN_EX F_SETSIG F_SETLEASE F_NOTIFY O_ASYNC FIOASYNC FIOSETOWN "
    "SIOCSPGRP TIOCSTI"
)


@pytest.mark.parametrize("what", LATER.split())
@pytest.mark.parametrize("phase", ["load", "closed"])
def test_no_code_is_left_to_run_between_calls(phase: str, what: str) -> None:
    assert answer(phase, what) == "EPERM"


@pytest.mark.parametrize("what", ["nonblocking", "duplicate", "mask"])
@pytest.mark.parametrize("phase", ["load", "closed"])
def test_what_the_c_library_does_with_descriptors_goes_on(phase: str, what: str) -> None:
    assert answer(phase, what) == "ok"


def test_once_closed_only_computing_goes_on() -> None:
    assert answer("closed", "compute") == "ok"
    assert answer("closed", "open") == "EPERM"


def test_an_abort_still_aborts() -> None:
    program = build_native("sealed", [PROGRAMS / "sealed.cc"], flags=["-pthread", "-ldl"], includes=[NATIVE])
    assert subprocess.run([program, "closed", "abort"]).returncode == -6

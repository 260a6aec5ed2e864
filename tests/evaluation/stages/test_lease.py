"""Leases of the GPU: checks share it, a clock has it alone, and nobody waits for ever."""

import subprocess
import sys
import threading
import time

import pytest

from warpsmith.machines.hardware.leases import CALLERS, Need, calling, lease, much_memory

pytestmark = pytest.mark.usefixtures("home")


def held_together(first: Need, second: Need) -> bool:
    """Whether a second one gets the GPU while a first has it."""
    got = threading.Event()

    def take() -> None:
        with lease(second):
            got.set()

    with lease(first):
        other = threading.Thread(target=take)
        other.start()
        together = got.wait(0.2)
    other.join()
    return together


@pytest.mark.parametrize(
    ("first", "second", "together"),
    [
        (Need.SHARED, Need.SHARED, True),
        (Need.SHARED, Need.ALONE, False),
        (Need.ALONE, Need.SHARED, False),
        (Need.ALONE, Need.ALONE, False),
        (Need.ALONE, Need.NONE, True),
    ],
)
def test_who_may_have_it_together(first: Need, second: Need, together: bool) -> None:
    assert held_together(first, second) is together


def test_one_at_a_time_has_much_memory() -> None:
    got = threading.Event()

    def take() -> None:
        with much_memory():
            got.set()

    with much_memory():
        other = threading.Thread(target=take)
        other.start()
        assert not got.wait(0.2)
    assert got.wait(5)
    other.join()


def test_few_make_calls_at_once() -> None:
    here, most = list[int](), list[int]()

    def check() -> None:
        with lease(Need.SHARED), calling():
            here.append(1)
            most.append(len(here))
            time.sleep(0.05)
            here.pop()

    threads = [threading.Thread(target=check) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(most) == CALLERS


def test_a_stream_of_checks_does_not_keep_a_clock_waiting() -> None:
    stop, ended = threading.Event(), list[int]()

    def checks() -> None:
        for _ in range(1000):
            if stop.is_set():
                return
            with lease(Need.SHARED):
                time.sleep(0.03)
        ended.append(1)

    threads = [threading.Thread(target=checks) for _ in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(0.1)
    with lease(Need.ALONE):
        stop.set()
    for thread in threads:
        thread.join()
    assert not ended, "it had the GPU while checks still came"


def test_a_killed_holder_frees_it() -> None:
    code = "import time\nfrom warpsmith.machines.hardware.leases import Need, lease\n"
    code += "with lease(Need.ALONE):\n    print('held', flush=True)\n    time.sleep(60)\n"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        holder.kill()
    with lease(Need.ALONE):
        pass

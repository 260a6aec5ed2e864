"""Torch's threads while a candidate is judged, and after."""

import threading

import torch

from warpsmith.evaluation.check.threads import one_thread


def test_there_is_one_and_afterwards_as_many_as_before() -> None:
    usual = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with one_thread():
            assert torch.get_num_threads() == 1
            with one_thread():
                assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(usual)


def test_judges_that_overlap_leave_what_they_found() -> None:
    usual, inside, leave, seen = torch.get_num_threads(), threading.Event(), threading.Event(), list[int]()

    def judge() -> None:
        with one_thread():
            inside.set()
            leave.wait(10)
            seen.append(torch.get_num_threads())

    torch.set_num_threads(2)
    try:
        other = threading.Thread(target=judge)
        other.start()
        inside.wait(10)
        with one_thread():
            leave.set()
            other.join()
        assert (seen, torch.get_num_threads()) == ([1], 2)
    finally:
        torch.set_num_threads(usual)

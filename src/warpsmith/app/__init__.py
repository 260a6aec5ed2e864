"""What a person or a program asks for: one function a command. This is the Python API."""

from typing import TYPE_CHECKING

from warpsmith.base.lazy import lazy_members

if TYPE_CHECKING:
    from warpsmith.app.api import optimize
    from warpsmith.app.best_kernel import Best, best, best_entry, write_kernel
    from warpsmith.app.kernel import read_kernel
    from warpsmith.app.published import (
        RECORDS,
        each_said,
        kernel_candidate,
        kernels_below,
        read_lines,
        read_records,
        records_below,
        refused,
        results_for,
    )
    from warpsmith.app.reviews import screen_with
    from warpsmith.app.running import stands
    from warpsmith.app.search import (
        Finish,
        Session,
        check_here,
        evaluator_here,
        finals,
        finish,
        is_here,
        open_dialogue,
        open_session,
        wait_for,
    )
    from warpsmith.app.wishes import Wishes

__getattr__ = lazy_members(__name__)

"""Tasks whose code runs in a confined child process."""

from typing import TYPE_CHECKING

from warpsmith.base.lazy import lazy_members

if TYPE_CHECKING:
    from warpsmith.tasks.host.client import policy
    from warpsmith.tasks.host.find import TaskTarget, find_all, open_task, read_shape
    from warpsmith.tasks.host.opened import LocalTask, OpenTask

__getattr__ = lazy_members(__name__)

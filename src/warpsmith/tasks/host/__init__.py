"""Open tasks: ours in this process, foreign ones in a confined child."""

from typing import TYPE_CHECKING

from warpsmith.base.lazy import lazy_members

if TYPE_CHECKING:
    from warpsmith.tasks.host.client import TaskClient, open_task, package_paths, task_policy
    from warpsmith.tasks.host.opened import LocalTask, OpenOptions, OpenTask

__getattr__ = lazy_members(__name__)

"""Executors of evaluations, here or in a pool."""

from typing import TYPE_CHECKING

from warpsmith.base.lazy import lazy_members

if TYPE_CHECKING:
    from warpsmith.pool.client import PoolClient, find_pool, start_pool, stop_pool
    from warpsmith.pool.executor import EvaluationRequest, Executor, ThreadExecutor, local_executor
    from warpsmith.pool.protocol import PoolStatus, socket_path

__getattr__ = lazy_members(__name__)

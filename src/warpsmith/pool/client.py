"""The commands' side of the resident pool."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from warpsmith.base import HarnessError, MachineError, PoolError, UsageError
from warpsmith.evaluation import EvaluationConfig, PreparedEvaluation
from warpsmith.isolation import Frame
from warpsmith.pool.executor import EvaluationRequest
from warpsmith.pool.protocol import (
    ANSWER_S,
    EVALUATE,
    GREETING,
    LONG_S,
    STATUS,
    STOP,
    Connection,
    EvaluationReply,
    Greeting,
    PoolStatus,
    Welcome,
    run_folder,
    socket_path,
)
from warpsmith.records import Candidate, Record

START_S = 60.0
PAUSE_S = 0.05
IDLE_MINUTES = 30.0


class PoolClient:
    """The resident pool of this user, as an executor. Each request has a connection of its own."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def submit(self, request: EvaluationRequest) -> Record:
        # Closing the connection in `finally` is the cancel signal: the pool sees the hang-up and ends the evaluator
        # process.
        """Return a request's record. Cancelling the call ends the evaluation."""
        connection = self._connect()
        try:
            return await asyncio.to_thread(_evaluate, connection, request)
        finally:
            connection.close()

    def grade(
        self,
        candidate: Candidate,
        config: EvaluationConfig,
        seed: int | None = None,
        *,
        prepared: PreparedEvaluation | None = None,
    ) -> Record:
        """Return the candidate's record. A prepared evaluation is resumed."""
        request = EvaluationRequest.of(candidate, config, seed, prepared=prepared)
        connection = self._connect()
        try:
            return _evaluate(connection, request)
        finally:
            connection.close()

    def status(self) -> PoolStatus:
        """Return the state of the pool."""
        return PoolStatus.parse(self._ask(STATUS).payload)

    def stop(self) -> PoolStatus:
        """Stop the pool and return its last state. Evaluations that it runs end."""
        return PoolStatus.parse(self._ask(STOP).payload)

    def refusal(self) -> str:
        """Return the pool's reason for refusal, or an empty text."""
        connection = Connection.open(self._path)
        try:
            return _greet(connection).refused
        finally:
            connection.close()

    def _ask(self, kind: int) -> Frame:
        connection = Connection.open(self._path)
        try:
            _greet(connection)
            connection.send(kind)
            return connection.receive()
        finally:
            connection.close()

    def _connect(self) -> Connection:
        try:
            connection = Connection.open(self._path)
            refused = _greet(connection).refused
        except OSError as error:
            raise PoolError(f"The pool at {self._path} does not answer: {error}.") from None
        if refused:
            connection.close()
            raise PoolError(f"The pool at {self._path} refuses: {refused}. `warpsmith pool stop` ends it.")
        return connection


def _greet(connection: Connection) -> Welcome:
    connection.send(GREETING, Greeting.here())
    return Welcome.parse(connection.receive().payload)


def _evaluate(connection: Connection, request: EvaluationRequest) -> Record:
    try:
        connection.send(EVALUATE, request, LONG_S)
        reply = EvaluationReply.parse(connection.receive(LONG_S).payload)
    except ConnectionError as error:
        raise PoolError(f"The pool ended during an evaluation: {error}.") from None
    if reply.refused:
        raise UsageError(reply.refused)
    if reply.record is None:
        raise HarnessError(reply.error)
    return reply.record


def find_pool(warn: Callable[[str], None] = lambda text: None) -> PoolClient | None:
    """Return this user's pool, or None with warning."""
    try:
        path = socket_path()
        if not path.exists():
            return None
        client = PoolClient(path)
        refused = client.refusal()
    except (ConnectionRefusedError, FileNotFoundError):  # the file of a pool that was killed
        return None
    except (OSError, MachineError) as error:
        warn(f"The pool is not used: {error}")
        return None
    if refused:
        warn(f"The pool is not used: {refused}. `warpsmith pool stop` ends it.")
        return None
    return client


def start_pool(evaluators: int, idle_minutes: float = IDLE_MINUTES, patience_s: float = START_S) -> PoolStatus:
    """Start a pool in the background, or find a running one; return its state."""
    path = socket_path()
    log = run_folder() / f"{path.stem}.log"
    argv = [sys.executable, "-P", "-m", "warpsmith.pool.server", str(evaluators), str(idle_minutes)]
    pid = _spawn(argv, log)
    end = time.monotonic() + patience_s
    while time.monotonic() < end:
        # A second pool of the same user ends at once by its lock, and the first one answers here.
        try:
            return PoolClient(path).status()
        except OSError:
            if os.waitpid(pid, os.WNOHANG)[0]:  # it ended at once; a pool that runs already answers above
                break
            time.sleep(PAUSE_S)
    else:
        os.kill(pid, signal.SIGKILL)
    raise MachineError(f"The pool did not start within {patience_s:.0f} s: {log.read_text(errors='replace')[-500:]}")


def _spawn(argv: list[str], log: Path) -> int:
    """Start a program in a new session; return its pid."""
    # A new session: the terminal's Ctrl-C and hang-up do not reach the pool.
    actions = (
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    )
    return os.posix_spawn(argv[0], argv, os.environ, file_actions=actions, setsid=True)


def stop_pool(patience_s: float = ANSWER_S) -> PoolStatus | None:
    """Stop this user's pool; return its state or None."""
    path = socket_path()
    try:
        last = PoolClient(path).stop()
    except (ConnectionRefusedError, FileNotFoundError):
        # Nobody listens: the socket file was left by a killed pool.
        path.unlink(missing_ok=True)
        return None
    # The pool answers before it stops; it has ended when its socket file is gone.
    end = time.monotonic() + patience_s
    while path.exists() and time.monotonic() < end:
        time.sleep(PAUSE_S)
    return last

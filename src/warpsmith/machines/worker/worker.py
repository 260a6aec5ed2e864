"""The native worker: built once, started confined for one candidate, spoken to in frames."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import warpsmith
from warpsmith.base import build_native
from warpsmith.isolation import (
    Child,
    ExchangeResult,
    Frame,
    FrameError,
    FrameFault,
    Policy,
    ProcessLimits,
    library_paths,
    spawn,
)
from warpsmith.machines.virtual import runtime
from warpsmith.machines.worker.protocol import FrameKind, MalformedReply, WorkerReply, parse

NATIVE = Path(__file__).parent / "native"
PACKAGE = Path(warpsmith.__file__).parent
SPIN_S = 0.1  # a sleeping judge would be woken late
DESCRIBED_BYTES = 4 << 20  # an answer that describes its results and says where they lie
CAPTURED_BYTES = 40 << 20  # one with the operations of a call, and all that variables held before it
UNDER_TOOL = {"WARPSMITH_UNDER_TOOL": "1"}  # the worker then puts no filter on itself: a tool in it needs other calls
EAGER = {"CUDA_MODULE_LOADING": "EAGER", "CUDA_CACHE_DISABLE": "1"}  # a GPU's driver does nothing later or from a file


def worker() -> Path:
    """Build the worker, linked by soname, so that the library path decides which runtime it gets."""
    folder = runtime().parent
    includes = [NATIVE, PACKAGE / "isolation" / "native", PACKAGE / "languages" / "nvcc" / "include"]
    heard = [f"-Wl,--export-dynamic-symbol={pattern}" for pattern in ("cuda*", "__cuda*")]  # what a candidate asks for
    flags = (f"-L{folder}", "-l:libcudart.so.13", "-ldl", *heard)
    return build_native("warpsmith-worker", sorted(NATIVE.glob("*.cpp")), flags, includes)


class Conversation:
    """Requests to one worker, each with one answer."""

    def __init__(self, child: Child, timeout_s: float, answer_bytes: int = DESCRIBED_BYTES) -> None:
        self._child, self._timeout_s, self._answer_bytes = child, timeout_s, answer_bytes

    def load(self, artifact: Path) -> WorkerReply | FrameError:
        """Load the artifact."""
        return self.ask(Frame(FrameKind.LOAD, str(artifact).encode()), FrameKind.LOADED)

    def call(self, payload: bytes) -> WorkerReply | FrameError:
        """Call the artifact; `payload` is `protocol.call(...)`."""
        return self.ask(Frame(FrameKind.CALL, payload), FrameKind.RESULT)

    def leave(self) -> None:
        """Let the worker end by itself."""
        self._child.send(Frame(FrameKind.LEAVE))

    def ask(self, frame: Frame, due: FrameKind) -> WorkerReply | FrameError:
        """Send one request and parse its answer; return a FrameError if there is none."""
        answer = self.exchange(frame, due)
        if isinstance(answer, FrameError):
            return answer
        try:
            return parse(answer.payload)
        except MalformedReply as malformed:
            return FrameError(FrameFault.MALFORMED, str(malformed))

    def exchange(self, frame: Frame, due: FrameKind, answer_bytes: int = 0) -> Frame | FrameError:
        """Send one frame and receive one of the kind that is due."""
        error = self._child.send(frame, self._timeout_s)
        most = answer_bytes or self._answer_bytes
        return error if error is not None else self._child.receive(self._timeout_s, due, most)

    def timed(self, frame: Frame, due: FrameKind) -> ExchangeResult:
        """Exchange frames under the evaluator's own clock."""
        return self._child.exchange(frame, self._timeout_s, due, self._answer_bytes, SPIN_S)


def start(policy: Policy, pass_fds: Sequence[int] = (), around: Sequence[str] = ()) -> Child:
    """Start a worker under a policy, inside the command line `around` if given."""
    return spawn([*around, worker()], policy, pass_fds=pass_fds)


def visible_gpu(uuid: str) -> dict[str, str]:
    """Return the variable that shows one GPU to a process; none if the card has no UUID."""
    return {"CUDA_VISIBLE_DEVICES": uuid} if uuid else {}


def worker_policy(
    artifact: Path,
    folder: Path,
    limits: ProcessLimits,
    more: Mapping[str, str] = MappingProxyType({}),
    devices: bool = False,
) -> Policy:
    """Return the policy of a worker: it sees its runtime, the artifact, and a GPU if `devices` is set."""
    readable = (*library_paths(devices), folder, worker().parent, artifact)
    env = environment(folder, {**(EAGER if devices else {}), **more})
    return Policy(read=readable, limits=limits, devices=devices, env=env)


def environment(runtime_folder: Path, more: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a worker: the place of its runtime and little else.

    Without restartable sequences: the kernel would run code of a candidate between two calls.
    """
    return {"LD_LIBRARY_PATH": str(runtime_folder), "GLIBC_TUNABLES": "glibc.pthread.rseq=0", **more}

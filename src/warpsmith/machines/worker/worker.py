"""The native worker: build, start, policy and conversation."""

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
# The evaluator polls this long before it sleeps: a sleeping process is woken 20 to 50 µs late, which is
# as much as a short kernel takes (design/clocks.md).
SPIN_S = 0.1  # a sleeping judge would be woken late
DESCRIBED_BYTES = 4 << 20  # an answer that describes its results and says where they lie
CAPTURED_BYTES = 40 << 20  # one with the operations of a call, and all that variables held before it
UNDER_TOOL = {"WARPSMITH_UNDER_TOOL": "1"}  # the worker then puts no filter on itself: a tool in it needs other calls
# Lazy loading would put the first launch of each kernel inside a timed call, and a cache on disk would
# make the first evaluation of a kernel differ from the next.
EAGER = {"CUDA_MODULE_LOADING": "EAGER", "CUDA_CACHE_DISABLE": "1"}  # a GPU's driver does nothing later or from a file


def worker() -> Path:
    """Build the worker program."""
    # Linked by soname: the library path in the environment decides whether NVIDIA's runtime or the
    # stand-in is loaded. The exported cuda* symbols come before the library's, so that requests of the
    # candidate pass the worker, which captures them.
    folder = runtime().parent
    includes = [NATIVE, PACKAGE / "isolation" / "native", PACKAGE / "languages" / "nvcc" / "include"]
    heard = [f"-Wl,--export-dynamic-symbol={pattern}" for pattern in ("cuda*", "__cuda*")]  # what a candidate asks for
    flags = (f"-L{folder}", "-l:libcudart.so.13", "-ldl", *heard)
    return build_native("warpsmith-worker", sorted(NATIVE.glob("*.cpp")), flags, includes)


class Conversation:
    """Requests to one worker, each with one reply."""

    def __init__(self, child: Child, timeout_s: float, answer_bytes: int = DESCRIBED_BYTES) -> None:
        self._child, self._timeout_s, self._answer_bytes = child, timeout_s, answer_bytes

    def load(self, artifact: Path) -> WorkerReply | FrameError:
        """Load an artifact; return the reply or a FrameError."""
        return self.ask(Frame(FrameKind.LOAD, str(artifact).encode()), FrameKind.LOADED)

    def call(self, payload: bytes) -> WorkerReply | FrameError:
        """Call the artifact with an encoded CALL payload."""
        return self.ask(Frame(FrameKind.CALL, payload), FrameKind.RESULT)

    def leave(self) -> None:
        """Ask the worker to end."""
        self._child.send(Frame(FrameKind.LEAVE))

    def ask(self, frame: Frame, due: FrameKind) -> WorkerReply | FrameError:
        """Send a request; return its reply or a FrameError."""
        answer = self.exchange(frame, due)
        if isinstance(answer, FrameError):
            return answer
        try:
            return parse(answer.payload)
        except MalformedReply as malformed:
            return FrameError(FrameFault.MALFORMED, str(malformed))

    def exchange(self, frame: Frame, due: FrameKind, answer_bytes: int = 0) -> Frame | FrameError:
        """Send a frame; return the due frame or a FrameError."""
        error = self._child.send(frame, self._timeout_s)
        most = answer_bytes or self._answer_bytes
        return error if error is not None else self._child.receive(self._timeout_s, due, most)

    def timed(self, frame: Frame, due: FrameKind) -> ExchangeResult:
        """Exchange frames under the evaluator's own clock."""
        # The time stamps are taken in native code: the interpreter needs up to 40 µs between two of them.
        return self._child.exchange(frame, self._timeout_s, due, self._answer_bytes, SPIN_S)


def start(policy: Policy, pass_fds: Sequence[int] = (), around: Sequence[str] = ()) -> Child:
    """Start a worker under a policy."""
    return spawn([*around, worker()], policy, pass_fds=pass_fds)


def visible_gpu(uuid: str) -> dict[str, str]:
    """Return the variable that shows one GPU, if any."""
    return {"CUDA_VISIBLE_DEVICES": uuid} if uuid else {}


def worker_policy(
    artifact: Path,
    folder: Path,
    limits: ProcessLimits,
    more: Mapping[str, str] = MappingProxyType({}),
    devices: bool = False,
) -> Policy:
    """Return a worker's policy: few readable files and no network."""
    # The worker sees neither task files nor Python: a reference that it could import or a file with
    # expected values would be an answer.
    readable = (*library_paths(devices), folder, worker().parent, artifact)
    env = environment(folder, {**(EAGER if devices else {}), **more})
    return Policy(read=readable, limits=limits, devices=devices, env=env)


def environment(runtime_folder: Path, more: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a worker."""
    # Restartable sequences are off: glibc registers them with the kernel, which would run a handler of
    # the candidate between two calls.
    return {"LD_LIBRARY_PATH": str(runtime_folder), "GLIBC_TUNABLES": "glibc.pthread.rseq=0", **more}

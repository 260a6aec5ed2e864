"""The compile stage: a candidate to a stage result and an artifact, through the cache and on a pool."""

import functools
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from warpsmith.base import Home, digest, digest_files
from warpsmith.languages.nvcc.build import CompileJob, build
from warpsmith.languages.nvcc.cache import Cache
from warpsmith.languages.nvcc.entries import EntryPoint, check_entry
from warpsmith.languages.nvcc.options import HEADERS, CompileOptions
from warpsmith.languages.nvcc.policy import DATA
from warpsmith.languages.nvcc.source import check_bytes, check_files, check_macros, unit
from warpsmith.languages.nvcc.toolchain import Toolchain
from warpsmith.records import Candidate, CompileFacts, Failure, Reason, Signature, StageResult, Verdict

STAGE = "compile"
CACHE_BYTES = 4 << 30
MOST_DETAIL = 4000  # characters
UNSURE = (Reason.COMPILE_LIMIT, Reason.COMPILER_CRASH)  # may differ on a machine with more room


@dataclass(frozen=True)
class Compiled:
    """The stage's result; the artifact and its functions when it passed."""

    result: StageResult
    artifact: Path | None = None
    entries: tuple[EntryPoint, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether there is something to run."""
        return self.artifact is not None


def compile(
    candidate: Candidate,
    signature: Signature | None = None,
    options: CompileOptions | None = None,
    toolchain: Toolchain | None = None,
) -> Compiled:
    """Compile a candidate, or take it from the cache; whatever is wrong with it is a FAIL with a reason.

    With a signature, the function of the candidate's direction must take and return what the task says.
    """
    started = time.perf_counter()
    options = options or CompileOptions()
    job = _job(candidate, options, toolchain or Toolchain.find())
    if isinstance(job, Failure):
        return Compiled(_failed(job, CompileFacts(arch=options.arch), started))
    return _finished(candidate, signature, _made(job), started)


class NvccCompiler:
    """The compiler of CUDA C++."""

    def compile(
        self, candidate: Candidate, signature: Signature | None = None, options: CompileOptions | None = None
    ) -> Compiled:
        """Compile a candidate with nvcc, or take its artifact from the cache."""
        return compile(candidate, signature, options)


def compile_many(
    candidates: Sequence[Candidate],
    signature: Signature | None = None,
    options: CompileOptions | None = None,
    workers: int | None = None,
) -> list[Compiled]:
    """Compile many at once, one process of nvcc a core, in the order given."""
    toolchain = Toolchain.find()
    with ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool:
        return list(pool.map(lambda one: compile(one, signature, options, toolchain), candidates))


def _job(candidate: Candidate, options: CompileOptions, toolchain: Toolchain) -> CompileJob | Failure:
    raw = candidate.source.encode("utf-8", "surrogatepass")
    failure = check_bytes(raw) or check_macros(candidate.macros) or check_files(candidate.source)
    if failure is not None:
        return failure
    text = unit(candidate)
    if isinstance(text, Failure):
        return text
    return CompileJob(text, options, toolchain)


def _made(job: CompileJob) -> Compiled:
    """The build's own result, from the cache when it is there."""
    key, cache = _key(job), Cache(Home.locate().cache / "artifacts", CACHE_BYTES)
    if (known := _known(job, cache)) is not None:
        return known
    with cache.writing(key):
        if (known := _known(job, cache)) is not None:
            return known
        started = time.perf_counter()
        built = build(job)
        if built.failure is None and built.artifact is not None:
            facts = built.facts.model_copy(update={"artifact": digest(built.artifact)})
            result = StageResult(stage=STAGE, verdict=Verdict.PASS, facts=facts, seconds=time.perf_counter() - started)
            return Compiled(result, cache.store(key, result, built.artifact, built.entries)[1], built.entries)
        assert built.failure is not None
        result = _failed(built.failure, built.facts, started)
        if result.reason not in UNSURE:
            cache.store(key, result, None)
        return Compiled(result)


def _key(job: CompileJob) -> str:
    policy = "" if job.options.link_policy else "no link policy"
    return digest(job.unit, *job.options.flags(), policy, job.toolchain.key, rules())


def _known(job: CompileJob, cache: Cache) -> Compiled | None:
    """What is in the cache; what the link policy has let through is the same without it."""
    if (hit := cache.load(_key(job))) is not None:
        return Compiled(_from_cache(hit[0].result), hit[1], hit[0].entries)
    if job.options.link_policy:
        return None
    found = _known(replace(job, options=replace(job.options, link_policy=True)), cache)
    return found if found is not None and found.ok else None


@functools.cache
def rules() -> str:
    """The hash of everything of ours that decides what comes out: headers, policy, and what reads artifacts."""
    ours = [path for path in HEADERS.rglob("*") if path.is_file()]
    named = digest(*(str(path.relative_to(HEADERS)) for path in sorted(ours)))
    return digest(named, digest_files(ours), digest_files([DATA, *Path(__file__).parent.glob("*.py")]))


def _finished(candidate: Candidate, signature: Signature | None, made: Compiled, started: float) -> Compiled:
    if not made.ok:
        return Compiled(_timed(made.result, started))
    failure = check_entry(made.entries, candidate.direction, signature)
    if failure is not None:
        assert isinstance(made.result.facts, CompileFacts)
        return Compiled(_failed(failure, made.result.facts, started), entries=made.entries)
    return replace(made, result=_timed(made.result, started))


def _failed(failure: Failure, facts: CompileFacts, started: float) -> StageResult:
    facts = facts.model_copy(update={"findings": failure.findings or facts.findings})
    seconds = max(0.0, time.perf_counter() - started)
    return StageResult(
        stage=STAGE,
        verdict=failure.reason.verdict,
        reason=failure.reason,
        detail=failure.detail[:MOST_DETAIL],
        facts=facts,
        seconds=seconds,
    )


def _from_cache(result: StageResult) -> StageResult:
    assert isinstance(result.facts, CompileFacts)
    return result.model_copy(update={"facts": result.facts.model_copy(update={"cached": True})})


def _timed(result: StageResult, started: float) -> StageResult:
    return result.model_copy(update={"seconds": time.perf_counter() - started})

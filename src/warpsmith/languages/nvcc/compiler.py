"""The compile stage: from candidate to stage result and artifact, through the cache."""

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
from warpsmith.languages.nvcc.source import check_bytes, check_files, check_macros, translation_unit
from warpsmith.languages.nvcc.toolchain import Toolchain
from warpsmith.records import Candidate, CompileFacts, Failure, Reason, Signature, StageResult, Verdict

STAGE = "compile"
CACHE_BYTES = 4 << 30
MOST_DETAIL = 4000  # characters
UNSURE = (Reason.COMPILE_LIMIT, Reason.COMPILER_CRASH)  # not cached: a machine with more memory may differ


@dataclass(frozen=True)
class Compiled:
    """The stage's result, artifact and entry points."""

    result: StageResult
    artifact: Path | None = None
    entries: tuple[EntryPoint, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether there is an artifact."""
        return self.artifact is not None


def compile(
    candidate: Candidate,
    signature: Signature | None = None,
    options: CompileOptions | None = None,
    toolchain: Toolchain | None = None,
) -> Compiled:
    """Compile a candidate or load it from the cache; its defects are FAILs with a reason.

    With a signature, the function of the candidate's direction must take and return the task's values.
    """
    started = time.perf_counter()
    options = options or CompileOptions()
    # The toolchain is found before the cache is asked, since its version is part of the key.
    job = _job(candidate, options, toolchain or Toolchain.find())
    if isinstance(job, Failure):
        return Compiled(_failed_result(job, CompileFacts(arch=options.arch), started))
    return _check_signature(candidate, signature, _compile_or_load(job), started)


class NvccCompiler:
    """The compiler of CUDA C++."""

    def compile(
        self, candidate: Candidate, signature: Signature | None = None, options: CompileOptions | None = None
    ) -> Compiled:
        """Compile a candidate, or load its cached artifact."""
        return compile(candidate, signature, options)


def compile_many(
    candidates: Sequence[Candidate],
    signature: Signature | None = None,
    options: CompileOptions | None = None,
    workers: int | None = None,
) -> list[Compiled]:
    """Compile candidates in parallel and return the results in order."""
    # Found once: each search would start nvcc.
    toolchain = Toolchain.find()
    with ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool:
        return list(pool.map(lambda one: compile(one, signature, options, toolchain), candidates))


def _job(candidate: Candidate, options: CompileOptions, toolchain: Toolchain) -> CompileJob | Failure:
    """Return a candidate's job, or the failure of its text."""
    # surrogatepass: a lone surrogate becomes bytes that check_bytes refuses with a reason.
    raw = candidate.source.encode("utf-8", "surrogatepass")
    failure = check_bytes(raw) or check_macros(candidate.macros) or check_files(candidate.source)
    if failure is not None:
        return failure
    text = translation_unit(candidate)
    if isinstance(text, Failure):
        return text
    return CompileJob(text, options, toolchain)


def _compile_or_load(job: CompileJob) -> Compiled:
    """Load a job's result or compile the job."""
    key, cache = _key(job), Cache(Home.locate().cache / "artifacts", CACHE_BYTES)
    if (known := _load_cached(job, cache)) is not None:
        return known
    with cache.lock_entry(key):
        # Another process may have made the entry while this one waited for the lock.
        if (known := _load_cached(job, cache)) is not None:
            return known
        started = time.perf_counter()
        built = build(job)
        if built.failure is None and built.artifact is not None:
            facts = built.facts.model_copy(update={"artifact": digest(built.artifact)})
            result = StageResult(stage=STAGE, verdict=Verdict.PASS, facts=facts, seconds=time.perf_counter() - started)
            return Compiled(result, cache.store(key, result, built.artifact, built.entries)[1], built.entries)
        assert built.failure is not None
        result = _failed_result(built.failure, built.facts, started)
        if result.reason not in UNSURE:
            cache.store(key, result, None)
        return Compiled(result)


def _key(job: CompileJob) -> str:
    """Return the cache key of a job."""
    # A result without the link policy must not be loaded as one that passed the policy.
    policy = "" if job.options.link_policy else "no link policy"
    return digest(job.unit, *job.options.flags(), policy, job.toolchain.key, rules_digest())


def _load_cached(job: CompileJob, cache: Cache) -> Compiled | None:
    """Load a job's result; one that passed the link policy also holds without it."""
    if (hit := cache.load(_key(job))) is not None:
        return Compiled(_mark_cached(hit[0].result), hit[1], hit[0].entries)
    if job.options.link_policy:
        return None
    # The link policy only refuses: a candidate that passed it compiles to the same artifact without it.
    found = _load_cached(replace(job, options=replace(job.options, link_policy=True)), cache)
    return found if found is not None and found.ok else None


@functools.cache
def rules_digest() -> str:
    """Return the hash of our headers, policy and readers, which decide the result."""
    ours = [path for path in HEADERS.rglob("*") if path.is_file()]
    # Names too: digest_files leaves the folders out, and a header that moves changes what an include finds.
    named = digest(*(str(path.relative_to(HEADERS)) for path in sorted(ours)))
    return digest(named, digest_files(ours), digest_files([DATA, *Path(__file__).parent.glob("*.py")]))


def _check_signature(candidate: Candidate, signature: Signature | None, made: Compiled, started: float) -> Compiled:
    """Check the entry point; return the result."""
    if not made.ok:
        return Compiled(_with_seconds(made.result, started))
    # The signature is checked after the cache, so one artifact serves every task that it fits.
    failure = check_entry(made.entries, candidate.direction, signature)
    if failure is not None:
        assert isinstance(made.result.facts, CompileFacts)
        return Compiled(_failed_result(failure, made.result.facts, started), entries=made.entries)
    return replace(made, result=_with_seconds(made.result, started))


def _failed_result(failure: Failure, facts: CompileFacts, started: float) -> StageResult:
    """Return a FAIL with its findings."""
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


def _mark_cached(result: StageResult) -> StageResult:
    """Return the result marked as loaded from the cache."""
    assert isinstance(result.facts, CompileFacts)
    return result.model_copy(update={"facts": result.facts.model_copy(update={"cached": True})})


def _with_seconds(result: StageResult, started: float) -> StageResult:
    """Return the result with the time since `started`."""
    return result.model_copy(update={"seconds": time.perf_counter() - started})

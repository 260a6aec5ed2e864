"""One kernel in detail: compiled, run virtually, or profiled."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from warpsmith import evaluation
from warpsmith.app.jobs import Watch, ignore
from warpsmith.app.kernels import read_kernel
from warpsmith.base import UsageError, find_nearest
from warpsmith.evaluation import EvaluationConfig, is_measured, machine_for
from warpsmith.evaluation.check import CheckSubject
from warpsmith.evaluation.profile import ProfileJob, find_ceilings, profile_cuda, profile_virtual
from warpsmith.evaluation.verify import run_virtual as run_one_case
from warpsmith.languages import compile_candidate
from warpsmith.languages.nvcc import DEFAULT_ARCH, Compiled, CompileOptions, Toolchain
from warpsmith.machines.hardware import Need, gpus, lease
from warpsmith.machines.virtual import SETTINGS, ExecutorSettings, VirtualMachine, VirtualSession, describe
from warpsmith.machines.worker import VirtualSandbox
from warpsmith.records import (
    Candidate,
    Case,
    CompileFacts,
    Direction,
    Group,
    ProfileFacts,
    Record,
    StageResult,
    Task,
    Trial,
    Verdict,
)
from warpsmith.tasks.host import OpenOptions, OpenTask, open_task

VIRTUAL_FLOPS = 1e8  # the most operations of a case that the virtual GPU runs in seconds
CALL_S = 120.0  # the limit of one call of run_virtual: a named case may be a large one


@dataclass(frozen=True)
class KernelRequest:
    """A kernel file, its task, and the machine that it is examined on."""

    kernel: Path
    task: str = ""
    direction: Direction | None = None
    language: str | None = None
    macros: Mapping[str, str] = field(default_factory=dict)
    device: str = evaluation.AUTO
    gpu: str = "H200"
    case: str | None = None
    trust: bool = False

    def read(self, task: str) -> Candidate:
        """Return the candidate of the file."""
        return read_kernel(self.kernel, task, self.direction, self.language, self.macros)


@dataclass(frozen=True)
class Profiled:
    """A kernel's record, with a correct kernel's profile."""

    record: Record
    facts: ProfileFacts | None = None


def compile_kernel(request: KernelRequest, arch: str = DEFAULT_ARCH) -> Compiled:
    """Compile a kernel; with a task, also check its signature."""
    # Without a task there is no signature to compare and no library that is allowed.
    if not request.task:
        return compile_candidate(request.read(""), None, CompileOptions(arch=arch))
    with open_task(request.task) as opened:
        task = opened.describe()
    candidate = request.read(task.name)
    return compile_candidate(candidate, task.signature(candidate.direction), CompileOptions.of(task, arch))


def run_virtual(request: KernelRequest, seed: int = 0) -> list[StageResult]:
    """Compile a kernel and run it on the virtual GPU: one case, or all smoke cases of the task."""
    with open_task(request.task) as opened:
        task = opened.describe()
        trials = [Trial(case=one, seed=seed) for one in _virtual_cases(task, request.case)]
        candidate = request.read(task.name)
        options = CompileOptions.of(task, VirtualMachine.of(request.gpu).arch)
        compiled = compile_candidate(candidate, task.signature(candidate.direction), options)
        if compiled.artifact is None:
            return [compiled.result]
        subject = CheckSubject(task, candidate.direction, opened.problem, candidate.language)
        return [compiled.result, *(_run_case(subject, one, compiled.artifact, request.gpu) for one in trials)]


def _run_case(subject: CheckSubject, trial: Trial, artifact: Path, gpu: str) -> StageResult:
    entry, signature, modelled = subject.direction.value, subject.task.signature(subject.direction), describe(gpu)
    with VirtualSession(artifact, entry, signature, modelled, ExecutorSettings(), call_s=CALL_S) as session:
        return run_one_case(subject, trial, session, modelled)


def _virtual_cases(task: Task, name: str | None) -> Sequence[Case]:
    return task.group_or_first(Group.SMOKE) if name is None else [find_case(task, name)]


def find_case(task: Task, name: str) -> Case:
    """Return a case by its name. Raise UsageError if the task has none of that name."""
    known = [case.name for case in task.cases]
    if name not in known:
        near = ", ".join(find_nearest(name, known) or known)
        raise UsageError(f"Task {task.name} has no case {name}; it has {near}.")
    return task.cases[known.index(name)]


def profile(request: KernelRequest, watch: Watch = ignore) -> Profiled:
    """Check a kernel, then profile it if it is right. The event is the record of the check.

    The numbers of a wrong kernel mean nothing, and a kernel that was not checked gets no hardware counters.
    """
    device = evaluation.settle_device(request.device)
    # The profile needs a right kernel only, so the timing stage is left out.
    config = EvaluationConfig(device=device, gpu=request.gpu, trust=request.trust, until="check")
    record = evaluation.grade(request.read(request.task), config)
    watch(record)
    if record.concluded is not Verdict.PASS:
        return Profiled(record)
    return Profiled(record, profile_record(request.task, record, config, request.case))


def profile_record(target: str, record: Record, config: EvaluationConfig, case: str | None = None) -> ProfileFacts:
    """Return the profile of a kernel that passed its check.

    Without a case, it is the first timing case, or on the virtual GPU the largest one of some seconds.
    """
    with open_task(target, OpenOptions(trust=config.trust)) as opened:
        task = opened.describe()
        chosen = find_case(task, case) if case is not None else _usual_case(task, config)
        job = _profile_job(opened, task, record.candidate, chosen, config)
    if not is_measured(config.device):
        gpu = describe(config.gpu)
        return profile_virtual(job, gpu, VirtualSandbox(gpu, SETTINGS))
    toolchain = Toolchain.find()
    # Counters belong to the whole GPU, so no other evaluation may use it meanwhile.
    with lease(Need.ALONE):
        return profile_cuda(job, toolchain, find_ceilings(gpus()[0], toolchain), config.trust)


def _profile_job(
    opened: OpenTask, task: Task, candidate: Candidate, case: Case, config: EvaluationConfig
) -> ProfileJob:
    options = CompileOptions.of(task, machine_for(config).arch)
    made = compile_candidate(candidate, task.signature(candidate.direction), options)
    assert made.artifact is not None, made.result.detail  # the check compiled it before
    assert isinstance(made.result.facts, CompileFacts)
    trial = Trial(case=case)
    problem = opened.problem(candidate.direction, trial)
    source, language = candidate.source, candidate.language
    return ProfileJob(task, candidate.direction, trial, problem, made.artifact, source, made.result.facts, language)


def _usual_case(task: Task, config: EvaluationConfig) -> Case:
    """Return the case to profile. A small one shows the launch and little else."""
    if is_measured(config.device):
        return task.group_or_first(Group.TIMING)[0]
    work = [(task.flops(Direction.FORWARD, case), case) for case in task.cases]
    # The largest case that takes seconds: a small one shows little besides the launch.
    able = [(flops, case) for flops, case in work if flops is not None and flops <= VIRTUAL_FLOPS]
    return max(able, key=lambda pair: pair[0])[1] if able else task.group_or_first(Group.SMOKE)[0]

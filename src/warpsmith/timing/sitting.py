"""Who sits under the clock: a compiled candidate, its processes, and what of this GPU does not depend on it."""

import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Self

from warpsmith.base import median
from warpsmith.compile import Toolchain
from warpsmith.records import Case, Ceilings, Direction, Family, Task, Trial
from warpsmith.sandbox.cuda_room import Buffers, room_for_all
from warpsmith.sandbox.cuda_session import CudaSession, Recorded
from warpsmith.sandbox.observation import Trouble
from warpsmith.sandbox.player import Player
from warpsmith.sandbox.session import Mode
from warpsmith.tasks.fresh import outline, problems
from warpsmith.tasks.opened import OpenTask
from warpsmith.tasks.program import Problem
from warpsmith.tasks.values import tensors
from warpsmith.timing.baselines import Host, host_for
from warpsmith.timing.null import Form, l2_bytes, measure_nulls
from warpsmith.timing.rules import Floor
from warpsmith.timing.sample import Examine, Null

OTHERS = (Family.UNIFORM, Family.SORTED)  # families that fit shapes of any size
# The calls before the one that is recorded. A first call may tune itself; behind a gate it shows whether anything is
# still to run when the call is over, which nobody would see once all is repeated in one order.
BEFORE = (Mode.IDLE, Mode.QUEUED, Mode.QUEUED, Mode.IDLE)


@dataclass(frozen=True)
class Subject:
    """A compiled candidate and what it is for."""

    opened: OpenTask
    target: str
    task: Task
    direction: Direction
    artifact: Path
    plain: bool
    launches: int  # a call's, as the virtual GPU counted them
    together: bool = False  # whether it can launch a grid that waits for itself

    def calls(self, case: Case) -> Iterator[Problem]:
        """Endless fresh calls of a case."""
        return problems(self.opened, self.direction, Trial(case=case), secrets.randbits(31), "cuda")

    def others(self, case: Case) -> list[Problem]:
        """Calls of the same shapes by secret draws: other values, another family of inputs, other parameters."""
        written = self.task.cases
        families = [family for family in OTHERS if any(family in one.families for one in written)]
        inits = sorted({init for one in written for init in one.inits})
        trials = [
            Trial(case=case, family=family, init=secrets.choice(inits), seed=secrets.randbits(62))
            for family in (Family.NORMAL, *families[:1])
        ]
        return [next(problems(self.opened, self.direction, trial, secrets.randbits(31), "cuda")) for trial in trials]

    def outline(self, case: Case) -> Problem:
        """The shapes of such a call."""
        return outline(self.opened, self.direction, Trial(case=case))


class Sitting:
    """The processes of one candidate under the clock: a player a window, or a worker, and torch beside them.

    `outlines` are calls of its cases, by name, of which only the shapes matter.
    """

    def __init__(self, subject: Subject, runtime: Path, outlines: Mapping[str, Problem], call_s: float) -> None:
        self._subject, self._runtime, self.outlines, self._call_s = subject, runtime, outlines, call_s
        self._room = room_for_all(outlines.values())
        self._workers: dict[int, tuple[CudaSession, ExitStack]] = {}
        self._players: dict[int, tuple[Player, ExitStack]] = {}
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.rest()
        self._open.close()

    def worker(self, number: int) -> CudaSession:
        """The worker of a window: each has one of its own."""
        if number not in self._workers:
            until = ExitStack()
            self._workers[number] = until.enter_context(self._session()), until
        return self._workers[number][0]

    def record(self, cases: Iterable[tuple[str, Iterator[Problem], Examine]]) -> Mapping[str, Recorded | Trouble | str]:
        """Of each case a call that can be repeated, by name; or what is wrong with it, or why it cannot be.

        All in one process, which is gone afterwards: no host code of the candidate's runs while it is timed.
        """
        given = self._subject.plain
        artifact, entry = self._subject.artifact, self._subject.direction.value
        with CudaSession(artifact, entry, self._runtime, self._buffers, self._call_s) as session:
            return {name: _record(session, calls, examine, given) for name, calls, examine in cases}

    def player(self, number: int, recorded: Recorded) -> Player:
        """The player of a window, about to repeat this call."""
        found = self._players.get(number)
        if found is not None and found[0].trouble:
            found[1].close()
            found = None
        if found is None:
            until, bases = self._open.enter_context(ExitStack()), recorded.recording.bases
            made = Player(self._subject.artifact, self._runtime, self._buffers, bases, self._call_s)
            found = self._players[number] = until.enter_context(made), until
        found[0].play(recorded)
        return found[0]

    @cached_property
    def _buffers(self) -> Buffers:
        return self._open.enter_context(Buffers(replace(self._room, slots=1)))  # a repeated call has one place

    def forms(self, outline: Problem) -> tuple[Form, Form]:
        """What a call costs that does nothing: by its launches and results, and by all that is known of it."""
        moved_bytes = sum(one.nbytes for one in (*tensors(outline.arguments), *outline.native))
        form = Form(self._subject.launches, len(outline.native))
        return form, replace(form, moved_bytes=moved_bytes, together=self._subject.together)

    def rest(self) -> None:
        """End the workers: nothing of a candidate runs while others are on the clock. The next call begins anew."""
        while self._workers:
            self._workers.popitem()[1][1].close()

    @property
    def torch(self) -> Host:
        """The resident baselines; whoever asks for them has nothing of the candidate beside them."""
        self.rest()
        return self._host

    @cached_property
    def _host(self) -> Host:
        return host_for(self._subject.target, self._open)

    def _session(self) -> CudaSession:
        subject = self._subject
        return CudaSession(subject.artifact, subject.direction.value, self._runtime, self._room, self._call_s)


def _record(session: CudaSession, calls: Iterator[Problem], examine: Examine, given: bool) -> Recorded | Trouble | str:
    hosts_us = []
    for mode in BEFORE:
        call = next(calls)
        shown = session.call(call.arguments, call.native if given else (), mode=mode)
        if trouble := shown.trouble or examine(call, shown):
            return trouble
        hosts_us += [shown.clocks.host_us] if shown.clocks and mode is Mode.IDLE else []
    call = next(calls)
    shown, recorded = session.record(call.arguments, call.native if given else ())
    if trouble := shown.trouble or examine(call, shown):
        return trouble
    return recorded if isinstance(recorded, str) else replace(recorded, host_us=median(hosts_us))


USUAL = tuple(Form(launches, results) for launches in (1, 2) for results in (1, 2, 3))


class Zeros:
    """What does not depend on a candidate: the null candidate's clocks and the floor of this GPU, measured once.

    A machine can fall into another gait for minutes; whoever doubts the zero has it measured again.
    """

    def __init__(self, toolchain: Toolchain, ceilings: Ceilings) -> None:
        self.toolchain, self._ceilings = toolchain, ceilings
        self._nulls: dict[Form, Null] = {}

    @cached_property
    def floor(self) -> Floor:
        """No call is shorter than one launch."""
        return Floor(self._ceilings, self.null(Form(1, 1)).queued_us, l2_bytes())

    def prepare(self) -> None:
        """Measure what most candidates ask for, while nobody waits."""
        if lacking := [form for form in USUAL if form not in self._nulls]:
            self._nulls |= measure_nulls(self.toolchain, lacking)

    def null(self, form: Form) -> Null:
        """The zero of the calls of a form."""
        if form not in self._nulls:
            self.again(form)
        return self._nulls[form]

    def again(self, form: Form) -> None:
        """Measure it anew."""
        self._nulls |= measure_nulls(self.toolchain, [form])

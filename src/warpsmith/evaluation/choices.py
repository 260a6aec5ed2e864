"""What a user may choose for an evaluation, and the device that the choice comes to on this machine."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, Literal, get_type_hints

from pydantic import Field, TypeAdapter, ValidationError

from warpsmith.base import UsageError
from warpsmith.machines import Machine
from warpsmith.machines.cuda import CudaMachine
from warpsmith.machines.hardware import gpus
from warpsmith.machines.virtual import VirtualMachine, gpu_identity
from warpsmith.records import MODES, Group, Options, first_wrong, shortened
from warpsmith.tasks.inputs import SCHEME

DEVICES = ("auto", "cuda", "vgpu")


class Defence(StrEnum):
    """What can be left out to see whether behaviour alone holds."""

    STATIC = "static"
    LINK = "link"
    VIRTUAL = "virtual"  # the virtual GPU before a real one, so that it does not grade itself


@dataclass(frozen=True)
class Choices:
    """The device, the cases, the GPU to model, what is left out, and whether confinement may be poor."""

    device: str = "auto"
    cases: tuple[Group, ...] = ()
    gpu: str = "H200"
    trust: bool = False
    without: frozenset[Defence] = frozenset()
    tier: Literal["search", "claim"] = "search"
    cache: Literal["cold", "warm"] = "cold"  # the L2 before a timed call
    baselines: tuple[str, ...] = ()  # modes of torch; empty: all of them
    call_s: Annotated[float, Field(gt=0, le=86400)] = 60.0  # the longest that one call may take
    # Of the timing cases, as the task lists them; none: all.
    most_cases: Annotated[int, Field(gt=0, le=1_000_000)] | None = None
    until: str = ""  # the last stage to run; empty: all of them
    # How test inputs follow from the seed; that of an older record repeats its calls.
    scheme: Annotated[int, Field(ge=1, le=SCHEME)] = SCHEME
    effort: Literal["usual", "sketch", "thorough"] = "usual"  # of the virtual GPU; see `sketch`

    def __post_init__(self) -> None:
        for name, rule in _rules().items():
            value = getattr(self, name)
            try:
                rule.validate_python(value, strict=True)
            except ValidationError as error:
                raise UsageError(f"Option {name} is {shortened(value)}: {first_wrong(error)}.") from None
        check_modes(self.baselines)

    def options(self, seed: int, is_given: bool = False) -> Options:
        """The same as part of a record; what is as usual is not said. A seed that was given is not secret."""
        extra: dict[str, str] = {"gpu": gpu_identity(self.gpu)} if self.device == "vgpu" else {"tier": self.tier}
        if self.without:
            extra["without"] = ",".join(sorted(self.without))
        if self.effort != "usual" and self.device == "vgpu":
            extra["effort"] = self.effort
        if self.until:
            extra["until"] = self.until
        if self.most_cases is not None:
            extra["most_cases"] = str(self.most_cases)
        if self.baselines:
            extra["baselines"] = ",".join(self.baselines)
        if is_given:
            extra["seed"] = "given"
        cases = tuple(group.value for group in self.cases)
        return Options(
            device=self.device, cases=cases, seeds=(seed,), scheme=self.scheme, cache=self.cache, extra=extra
        )


@cache
def _rules() -> dict[str, TypeAdapter[Any]]:
    """Return what each option may be, by its name."""
    hints = get_type_hints(Choices, include_extras=True)
    return {name: TypeAdapter(hint) for name, hint in hints.items()}


def check_modes(names: Iterable[str]) -> None:
    """Raise UsageError if one of the names is no mode of torch."""
    for name in names:
        if name not in MODES:
            raise UsageError(f"Baseline {name} does not exist; torch has these modes: {', '.join(MODES)}.")


def settled(device: str) -> str:
    """`auto` as `cuda` or `vgpu`; a `cuda` that is not there is a MachineError."""
    if device not in DEVICES:
        raise UsageError(f"Device {device} does not exist; use {', '.join(DEVICES)}.")
    if device == "vgpu":
        return device
    if device == "cuda":
        CudaMachine.first()
        return device
    return "cuda" if gpus() else "vgpu"


def machine_for(choices: Choices) -> Machine:
    """Return the machine of settled choices."""
    return VirtualMachine.of(choices.gpu) if choices.device == VirtualMachine.kind else CudaMachine.first()

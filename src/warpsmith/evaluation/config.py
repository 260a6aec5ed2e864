"""The options of an evaluation, this machine's policy, and the machine."""

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import (
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from warpsmith.base import MachineError, UsageError
from warpsmith.machines import Machine
from warpsmith.machines.cuda import CudaMachine
from warpsmith.machines.hardware import Gpu, gpus
from warpsmith.machines.rehearsed import RehearsedMachine
from warpsmith.machines.virtual import VirtualMachine, gpu_identity
from warpsmith.records import EFFORT_OF_TIER, MODES, Defence, EvaluationOptions, Group, describe_error, shorten_value
from warpsmith.tasks.inputs import SCHEME

AUTO = "auto"
DEVICES = (AUTO, CudaMachine.kind, VirtualMachine.kind, RehearsedMachine.kind)


class EvaluationConfig(EvaluationOptions):
    """Options and policy of an evaluation."""

    # Policy fields (`trust`, `call_s`) describe this machine and not the candidate, so no record holds
    # them. `tier` is the old name of the option `effort` and still read: `claim` is `thorough`, `search`
    # is `usual`.

    model_config = ConfigDict(strict=True)

    scheme: Annotated[int, Field(ge=1, le=SCHEME)] = SCHEME
    cache: Literal["cold", "warm"] = "cold"  # the L2 before a timed call
    without: frozenset[Defence] = frozenset()
    most_cases: Annotated[int, Field(gt=0, le=1_000_000)] | None = None
    trust: bool = False  # policy: run the kernel although this machine cannot confine it well
    call_s: Annotated[float, Field(gt=0, le=86400)] = 60.0  # policy: the longest that one call may take

    @model_validator(mode="wrap")
    @classmethod
    def _read(cls, fields: Any, read: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Self:
        """Read fields; raise UsageError that names the wrong one."""
        try:
            found: Self = read(_without_tier(_typed(fields) if info.mode == "json" else fields))
        except ValidationError as error:
            raise UsageError(_wrong_option(error, cls.model_fields)) from None
        check_modes(found.baselines)
        return found

    @model_serializer(mode="plain")
    def _serialize(self) -> dict[str, Any]:
        """Return the fields that the caller set."""
        # Unset fields are left out and take their defaults when the configuration is read again.
        return {name: getattr(self, name) for name in self.model_fields_set}

    def replace(self, **changes: Any) -> Self:
        """Return the configuration with changes; raise UsageError if wrong."""
        replaced = {*changes, *(["effort"] if "tier" in changes else [])}
        given = {name: getattr(self, name) for name in self.model_fields_set - replaced}
        return type(self)(**given, **changes)

    def stored(self, seed: int, is_given: bool = False) -> EvaluationOptions:
        """Return the options as a record holds them."""
        # A given seed is marked: its inputs are no secret, so the record proves less.
        fields = {name: getattr(self, name) for name in EvaluationOptions.model_fields}
        found = {"gpu": gpu_identity(self.gpu), "seeds": (seed,), "is_seed_given": is_given}
        return EvaluationOptions(**{**fields, **found})


def _typed(fields: dict[str, Any]) -> dict[str, Any]:
    """Return JSON fields with tuples and enumerations."""
    groups, defences = fields.get("cases", ()), fields.get("without", ())
    return {
        **fields,
        "cases": tuple(map(Group, groups)),
        "without": frozenset(map(Defence, defences)),
        "baselines": tuple(fields.get("baselines", ())),
        "seeds": tuple(fields.get("seeds", ())),
    }


def _without_tier(fields: Any) -> Any:
    """Return fields with `effort` for `tier`; raise UsageError if unknown."""
    if not isinstance(fields, dict) or "tier" not in fields:
        return fields
    rest = {name: value for name, value in fields.items() if name != "tier"}
    tier = fields["tier"]
    if tier not in EFFORT_OF_TIER:
        known = " or ".join(EFFORT_OF_TIER)
        raise UsageError(f"Option tier is {shorten_value(tier)}: use {known}.")
    return {"effort": EFFORT_OF_TIER[tier], **rest}


def _wrong_option(error: ValidationError, names: Iterable[str]) -> str:
    """Return a sentence on the first wrong option."""
    first = error.errors(include_url=False)[0]
    name = str(first["loc"][0]) if first["loc"] else ""
    if name not in names:
        return f"Option {name} does not exist; an evaluation has {', '.join(names)}."
    return f"Option {name} is {shorten_value(first['input'])}: {describe_error(error)}."


def check_modes(names: Iterable[str]) -> None:
    """Raise UsageError for a name that is no torch mode."""
    for name in names:
        if name not in MODES:
            raise UsageError(f"Baseline {name} does not exist; torch has these modes: {', '.join(MODES)}.")


def settle_device(device: str, find_gpus: Callable[[], Sequence[Gpu]] | None = None) -> str:
    """Return the machine kind of a device name; raise if absent."""
    if device not in DEVICES:
        raise UsageError(f"Device {device} does not exist; use {', '.join(DEVICES)}.")
    find_gpus = find_gpus or gpus
    if device == AUTO:
        return CudaMachine.kind if find_gpus() else VirtualMachine.kind
    if device == CudaMachine.kind:
        CudaMachine.first(find_gpus)
    return device


def is_measured(device: str) -> bool:
    """Return whether this kind of machine measures times."""
    return device != VirtualMachine.kind


def machines_for(config: EvaluationOptions) -> tuple[Machine, ...]:
    """Return the equal machines that the options name."""
    if config.device == RehearsedMachine.kind:
        return RehearsedMachine.all()
    return CudaMachine.all() if is_measured(config.device) else (VirtualMachine.of(config.gpu),)


def machine_for(config: EvaluationOptions, uuid: str = "") -> Machine:
    """Return the machine of a UUID; raise MachineError if gone."""
    if not uuid and config.device == CudaMachine.kind:
        return CudaMachine.first()
    found = machines_for(config)
    chosen = next((machine for machine in found if uuid in ("", machine.uuid)), None)
    if chosen is None:
        raise MachineError(f"GPU {uuid} is no longer visible here; {', '.join(one.uuid for one in found)} are.")
    return chosen

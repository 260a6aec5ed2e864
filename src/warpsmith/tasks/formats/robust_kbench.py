"""robust-kbench's task folders: `func_forward.py`, `func_backward.py` and their configs."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from warpsmith.base import UsageError, find_nearest, read_text
from warpsmith.records import Argument, Case, Direction, Dtype, Group, Origin, Role, Signature, Task, Trial
from warpsmith.tasks.formats.autograd import (
    CapturedArguments,
    backward_call,
    capture_arguments,
    gradient_places,
    raise_arguments,
    written_names,
)
from warpsmith.tasks.formats.cnames import identifier, identifiers
from warpsmith.tasks.formats.codefile import SALT, load, require_attribute, seed
from warpsmith.tasks.formats.foreign import ForeignProgram
from warpsmith.tasks.formats.kbench_config import Setting, read_settings
from warpsmith.tasks.formats.kernelbench import describe_object
from warpsmith.tasks.formats.target import TaskFormat, TaskTarget, kbench_files, version_of
from warpsmith.tasks.inputs import Values
from warpsmith.tasks.inspection import (
    NUMBERS,
    BoundArgument,
    TaskHead,
    argument_values,
    call_on_copies,
    smaller_axes,
    smoke_case,
    with_valid_names,
)
from warpsmith.tasks.inspection.bound import bind_argument
from warpsmith.tasks.reference import upstream

FORWARD, BACKWARD = "func_forward.py", "func_backward.py"
CONFIGS = {FORWARD: "config_forward.json", BACKWARD: "config_backward.json"}
ANY = "**"
FORM = "A robust-kbench task defines forward_fn, class Model with forward(..., fn=forward_fn), and get_inputs."


class KbenchProgram:
    """A folder as a program: forward from one file, backward from the other."""

    def __init__(self, folder: Path) -> None:
        settings = _settings(folder)
        files = [file for file in CONFIGS if (folder / file).exists()]
        sources = [KbenchSource(folder, file, settings) for file in files]
        _check_settings(folder, settings, frozenset().union(*(source.takes for source in sources)))
        self._forward = ForeignProgram(sources[0])
        self._backward = ForeignProgram(sources[1]) if len(sources) > 1 else None
        backward = self._backward.task.backward if self._backward else None
        work = {direction: self.side(direction).task.work.get(direction, {}) for direction in Direction}
        self.task: Task = self._forward.task.model_copy(update={"backward": backward, "work": work})

    def side(self, direction: Direction) -> ForeignProgram:
        """Return the program of a direction's file."""
        if direction is Direction.BACKWARD and self._backward is not None:
            return self._backward
        return self._forward

    def arguments(self, trial: Trial) -> Values:
        """Return forward's arguments."""
        return self._forward.arguments(trial)

    def forward(self, arguments: Values) -> tuple[Tensor, ...]:
        """Run the torch function of the forward file."""
        return self._forward.forward(arguments)

    def backward_arguments(self, arguments: Values, grads: Sequence[Tensor]) -> Values:
        """Return the arguments that the backward file passes on."""
        return self.side(Direction.BACKWARD).backward_arguments(arguments, grads)


class KbenchSource:
    """One file of a folder, whose model passes a kernel's arguments to `fn`."""

    def __init__(self, folder: Path, file: str, settings: Sequence[Setting]) -> None:
        self._path = folder / file
        self._code = load(self._path)
        self._settings = {setting.name: setting for setting in settings}
        self._function: Callable[..., Any] = require_attribute(self._code, self._path, "forward_fn", FORM)
        self._model: Callable[..., Any] = require_attribute(self._code, self._path, "Model", FORM)
        self._get_inputs: Callable[..., Any] = require_attribute(self._code, self._path, "get_inputs", FORM)
        self._keywords: tuple[str, ...] = ()
        self._autograd = self._autograd_function() if file == BACKWARD else None
        self.head = self._read_head(folder, file)

    @property
    def takes(self) -> frozenset[str]:
        """Names of accepted settings; `**` means any."""
        return _parameters(self._model) | _parameters(self._get_inputs)

    def _read_head(self, folder: Path, file: str) -> TaskHead:
        """Return name, version and description of the task."""
        texts = [f"# {path.name}\n{read_text(path)}" for path in kbench_files(folder) if path.suffix == ".py"]
        return TaskHead(
            name=identifier(folder.name).lstrip("_"),
            version=version_of(TaskTarget(TaskFormat.ROBUST_KBENCH, folder)),
            origin=Origin.ROBUST_KBENCH,
            description=describe_object(self._function, f"The robust-kbench task {folder.name}."),
            text="\n\n".join(texts),
            path=folder / file,
        )

    def cases(self) -> tuple[Case, ...]:
        """Return a case per setting, one for timing, and a smaller one for the virtual GPU."""
        given = [_case(setting) for setting in self._settings.values()]
        first = next(iter(self._settings.values()))
        free = frozenset(_sizes(first.input)) - frozenset(first.init)
        cuts = [{**first.input, **cut} for cut in smaller_axes(_sizes(first.input), free)]
        options = [self._add_setting(Setting(f"smoke_{i}", first.init, cut)) for i, cut in enumerate(cuts)]
        small = smoke_case(self, given[0], options)
        axes = next((s for s in self._settings.values() if _case(s).axes == small.axes), first)
        self._settings["smoke"] = Setting("smoke", axes.init, axes.input)
        timing = given[0].model_copy(update={"name": "timing", "group": Group.TIMING})
        self._settings["timing"] = Setting("timing", first.init, first.input)
        return small, *given, timing

    def _add_setting(self, setting: Setting) -> Case:
        """Add a setting and return its case."""
        self._settings[setting.name] = setting
        return _case(setting)

    def bind(self, case: Case, seed_: int) -> tuple[BoundArgument, ...]:
        """Return the values that a case's model passes to `fn`."""
        setting = self._settings[case.name]
        seed(seed_ ^ SALT)
        model = self._model(**accepted_settings(self._model, setting.init))
        seed(seed_)
        inputs = self._get_inputs(**accepted_settings(self._get_inputs, setting.input))
        if not inputs:
            raise UsageError(f"{self._path}: get_inputs() gives no inputs; a task takes at least one tensor.")
        # Model.forward calls `fn` with the kernel's arguments; the substitute takes them and stops the call.
        call = capture_arguments(lambda: model(*inputs, fn=raise_arguments))
        if call is None:
            raise UsageError(f"{self._path}: Model.forward never calls its fn, so there is nothing to replace. {FORM}")
        self._keywords = call.keywords
        return self._bind_call(call, inputs, frozenset(map(id, model.buffers())))

    def _bind_call(
        self, call: CapturedArguments, inputs: Sequence[Any], buffers: frozenset[int]
    ) -> tuple[BoundArgument, ...]:
        """Return the arguments of a captured call with their roles."""
        given = {id(value) for value in inputs}
        found = []
        for name, note, value in self._name_arguments(call):
            # By identity: inputs and buffers are known objects, other tensors with gradients are parameters.
            trained = isinstance(value, Tensor) and id(value) not in buffers and value.requires_grad
            role = Role.INPUT if id(value) in given else Role.PARAMETER if trained or value is None else Role.FIXED
            found.append(bind_argument(name, value, role, str(self._path), note))
        return with_valid_names(found)

    def _name_arguments(self, call: CapturedArguments) -> list[tuple[str, str, Any]]:
        """Return name, annotation and value of each argument of a captured call."""
        parameters = list(inspect.signature(self._function).parameters.values())
        plain = len(call.arguments) - len(call.keywords)
        names = [p.name for p in parameters[:plain]] + [f"argument_{i}" for i in range(len(parameters), plain)]
        notes = {p.name: getattr(p.annotation, "__name__", str(p.annotation)) for p in parameters}
        names = [*names, *call.keywords]
        return [(n, notes.get(n, ""), value) for n, value in zip(names, call.arguments, strict=True)]

    def call(self, arguments: Values) -> Any:
        """Call `forward_fn`."""
        plain = len(arguments) - len(self._keywords)
        return self._function(*arguments[:plain], **dict(zip(self._keywords, arguments[plain:], strict=True)))

    def _autograd_function(self) -> Any:
        """Return the file's AutogradFunction with its `forward_fn`."""
        function = require_attribute(
            self._code, self._path, "AutogradFunction", f"{BACKWARD} defines class AutogradFunction."
        )
        if getattr(function, "forward_fn", self._function) is None:
            function.forward_fn = staticmethod(self._function)
        return function

    def backward(self, forward: Signature, smallest: Sequence[BoundArgument]) -> Signature | None:
        """Return the arguments of `backward_fn`, and the gradients that it returns."""
        if self._autograd is None:
            return None
        given = argument_values(smallest)
        grads = upstream(call_on_copies(self, given), 0)
        call = backward_call(self._autograd, given, grads)
        if call is None:
            raise UsageError(f"{self._path}: AutogradFunction.backward never calls its backward_fn.")
        places = gradient_places(self._autograd, given, grads)
        if places is None:
            raise UsageError(
                f"{self._path}: AutogradFunction.backward changes what backward_fn returns, so it cannot be told "
                "which gradient is which. Return them as they are."
            )
        results = tuple(f"grad_{forward.arguments[place].name}" for place in places)
        return Signature(arguments=self._backward_arguments(call, forward, given, grads), results=results)

    def _backward_arguments(
        self, call: CapturedArguments, forward: Signature, given: Values, grads: Sequence[Tensor]
    ) -> tuple[Argument, ...]:
        """Return the named arguments of `backward_fn`."""
        known = {id(v): (a.name, a.role) for v, a in zip(given, forward.arguments, strict=True) if v is not None}
        for name, grad in zip(forward.results, grads, strict=True):
            known[id(grad)] = (f"grad_{name}", Role.GRAD)
        written = written_names(self.head.text.split(f"# {BACKWARD}\n")[-1], "backward_fn")
        found = []
        for place, value in enumerate(call.arguments):
            # A tuple of one tensor is torch's form of a single gradient.
            inner = value[0] if isinstance(value, tuple) and len(value) == 1 else value
            name, role = known.get(id(inner), (f"saved_{place}", Role.SAVED))
            label = written[place] if len(written) == len(call.arguments) else name
            kind = bind_argument(label, value, role, str(self._path)).kind
            found.append((label, kind, Role.CONSTANT if kind in NUMBERS else role))
        names = identifiers(label for label, _, _ in found)
        return tuple(Argument(name=n, kind=kind, role=role) for n, (_, kind, role) in zip(names, found, strict=True))

    def backward_values(self, arguments: Values, grads: Sequence[Tensor]) -> Values:
        """Return the values that `backward_fn` gets after a forward."""
        call = backward_call(self._autograd, arguments, grads)
        assert call is not None  # the signature could not have been learnt otherwise
        return tuple(bind_argument("", value, Role.SAVED, str(self._path)).value for value in call.arguments)


def _settings(folder: Path) -> list[Setting]:
    """Return the distinct settings of both configs; backward's own have a prefix."""
    found = read_settings(folder / CONFIGS[FORWARD])
    if (folder / CONFIGS[BACKWARD]).exists():
        known = {setting.same for setting in found}
        others = [s for s in read_settings(folder / CONFIGS[BACKWARD]) if s.same not in known]
        found += [Setting(f"backward_{s.name}", s.init, s.input) for s in others]
    return found


def accepted_settings(function: Callable[..., Any], settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings that a function accepts."""
    names = _parameters(function)
    return {name: value for name, value in settings.items() if name in names or ANY in names}


def _parameters(function: Callable[..., Any]) -> frozenset[str]:
    """Return the parameter names of a function, with `**` for any."""
    found = inspect.signature(function).parameters.values()
    return frozenset(ANY if p.kind is p.VAR_KEYWORD else p.name for p in found)


def _check_settings(folder: Path, settings: Sequence[Setting], taken: frozenset[str]) -> None:
    """Raise UsageError for a setting that no function accepts."""
    for setting in settings:
        for name in {**setting.init, **setting.input}:
            if name not in taken and ANY not in taken:
                near = find_nearest(name, taken) or sorted(taken)
                raise UsageError(
                    f"{folder / CONFIGS[FORWARD]}: case '{setting.name}': setting '{name}' is taken by neither Model "
                    f"nor get_inputs; known are {', '.join(near)}."
                )


def _sizes(settings: Mapping[str, Any]) -> dict[str, int]:
    """Return the integer settings."""
    return {name: n for name, n in settings.items() if isinstance(n, int) and not isinstance(n, bool)}


def _case(setting: Setting) -> Case:
    """Return a setting as a case."""
    axes = {**_sizes(setting.init), **_sizes(setting.input)}
    return Case(name=setting.name, group=Group.DEV, axes=axes, dtype=Dtype.FLOAT32)

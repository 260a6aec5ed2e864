"""A task as data: its signature, its cases, what counts as right, what it costs. Knows no torch."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from zlib import crc32

from pydantic import Field, PositiveInt

from warpsmith.base import UsageError, evaluate_formula
from warpsmith.records.dtype import Dtype
from warpsmith.records.model import Model


class Direction(StrEnum):
    """Which pass of a task a kernel implements."""

    FORWARD = "forward"
    BACKWARD = "backward"

    @classmethod
    def named(cls, stem: str) -> "Direction":
        """What the name of a kernel's file says; forward where it says nothing."""
        return cls.BACKWARD if cls.BACKWARD in stem else cls.FORWARD


class ArgumentKind(StrEnum):
    """What an argument is to a kernel."""

    TENSOR = "tensor"
    OPTIONAL_TENSOR = "optional_tensor"
    TENSORS = "tensors"  # a tuple of tensors
    FLOAT = "float"
    INT = "int"
    BOOL = "bool"
    INTS = "ints"


class Role(StrEnum):
    """Where an argument comes from, and so whether a gradient flows to it."""

    INPUT = "input"
    PARAMETER = "parameter"
    FIXED = "fixed"  # a tensor without gradient: indices, tables
    CONSTANT = "constant"  # a number
    GRAD = "grad"  # the upstream gradient of an output
    SAVED = "saved"  # what forward saved for backward


PRODUCT_TENSORS = 2  # a product multiplies at least two tensors


class Argument(Model):
    """One argument of a kernel."""

    name: str
    kind: ArgumentKind
    role: Role

    @property
    def multiplies(self) -> bool:
        """Whether it is a tensor that a gradient flows to."""
        return self.kind in (ArgumentKind.TENSOR, ArgumentKind.OPTIONAL_TENSOR) and self.role in (
            Role.INPUT,
            Role.PARAMETER,
        )


class Signature(Model):
    """The arguments of one direction in order, and the names of the tensors it returns."""

    arguments: tuple[Argument, ...]
    results: tuple[str, ...]

    @property
    def is_product(self) -> bool:
        """Whether forward can multiply tensors with each other: it takes two that a gradient flows to."""
        return sum(argument.multiplies for argument in self.arguments) >= PRODUCT_TENSORS

    @property
    def pairs_inputs(self) -> bool:
        """Whether it can multiply inputs with each other."""
        inputs = [one for one in self.arguments if one.multiplies and one.role is Role.INPUT]
        return len(inputs) >= PRODUCT_TENSORS


class Group(StrEnum):
    """What a case is for. Held-out cases are drawn from ranges with a secret seed."""

    SMOKE = "smoke"
    DEV = "dev"
    TIMING = "timing"
    HELDOUT = "heldout"


MATRIX_OPERATIONS = 8  # a byte moved; a task that multiplies no matrices has 3.25 at most


class Family(StrEnum):
    """A distribution that inputs are drawn from; its row is in tasks/inputs/families.py."""

    NORMAL = "normal"
    UNIFORM = "uniform"
    TINY = "tiny"
    HUGE = "huge"
    SPARSE = "sparse"
    CONSTANT = "constant"
    SORTED = "sorted"
    TIES = "ties"
    ALTERNATING = "alternating"
    ONE_HOT = "one_hot"
    BLOCK_ONE_HOT = "block_one_hot"  # a sum lives on a random few terms that follow each other
    NEAR_OVERFLOW = "near_overflow"
    DENORMAL = "denormal"
    VAST = "vast"  # past what float16 holds, at either end
    OFFSET = "offset"  # a mean that is thousands of deviations from zero


class Init(StrEnum):
    """How parameters are drawn around their mean and spread."""

    DEFAULT = "default"  # mean + std * normal
    FRESH = "fresh"  # the mean everywhere: a module that was never trained
    WIDE = "wide"  # four times the spread
    SIGNED = "signed"  # mean and spread with a random sign: no gain is positive for certain


class Axis(Model):
    """A named size, or a named number (stride, groups), and the largest value a case may give it."""

    name: str
    meaning: str
    maximum: PositiveInt


class Case(Model):
    """One point in the space of a task: sizes, element type, and the inits and families to draw from."""

    name: str
    group: Group
    axes: Mapping[str, int]
    dtype: Dtype
    inits: tuple[Init, ...] = (Init.DEFAULT,)
    families: tuple[Family, ...] = (Family.NORMAL,)

    def sizes(self, *names: str) -> tuple[int, ...]:
        """The values of the named axes, in that order."""
        return tuple(self.axes[name] for name in names)

    def pick(self, values: Sequence[float]) -> float:
        """One of the numbers, by shape and type: the same in every draw of a case, since a call that is recorded once
        and repeated with other inputs keeps its numbers.
        """
        return values[crc32(self.shape.encode()) % len(values)]

    @property
    def shape(self) -> str:
        """Its sizes and type, for people."""
        return ", ".join([*(f"{name} = {size}" for name, size in self.axes.items()), self.dtype])

    @property
    def variables(self) -> dict[str, int]:
        """What a task's formulas are written in: the axes, and the bytes of an element as `size`."""
        return {**self.axes, "size": self.dtype.bytes}


class Twist(StrEnum):
    """What is done to drawn inputs, so that what a kernel remembers of other inputs shows."""

    NONE = "none"
    NUDGED = "nudged"  # one element of one tensor is another
    SHUFFLED = "shuffled"  # the same values in another order: every simple statistic stays
    RAISED = "raised"  # half of a row is far above all others
    PEAKED = "peaked"  # half of a row is farther above all others than exponents of float32 reach
    SCALED = "scaled"  # inputs by turns are past what float16 holds at either end, and their product is what it was

    @property
    def enlarges(self) -> bool:
        """Whether a constant is added or multiplied, so that results may be past their element type."""
        return self in (Twist.RAISED, Twist.PEAKED, Twist.SCALED)


class Trial(Model):
    """One draw of inputs: a case, one of its inits, one of its families, a seed, and what is done to it."""

    case: Case
    init: Init = Init.DEFAULT
    family: Family = Family.NORMAL
    seed: int = 0
    twist: Twist = Twist.NONE

    @property
    def draw(self) -> str:
        """What was drawn, in words."""
        twist = "" if self.twist is Twist.NONE else f", {self.twist}"
        return f"{self.family} inputs, {self.init} parameters{twist}"


class Reach(Model):
    """The values an axis may take in a held-out case, both ends included, in steps of `multiple`."""

    low: int
    high: int
    multiple: PositiveInt = 1


class Heldout(Model):
    """The ranges from which shapes are drawn when a kernel is graded."""

    axes: Mapping[str, Reach]
    dtypes: tuple[Dtype, ...]
    inits: tuple[Init, ...] = (Init.DEFAULT,)
    families: tuple[Family, ...] = (Family.NORMAL,)
    require: tuple[str, ...] = ()  # formulas over the axes that must be non-zero
    count: PositiveInt = 5  # one of each kind of size


class Narrower(Model):
    """What of an error budget is narrower forward: gradients sum over other axes, and take differences of near ones."""

    norm_factor: float | None = Field(default=None, gt=0)
    norm_floor: Mapping[Dtype, float] = Field(default_factory=dict)  # of the element types that are named
    reduction: str | None = None


class Tolerance(Model):
    """The error budget; the formulas stand where results are compared.

    elementwise: `factor` times the rounding of a value, of a sum of `reduction` terms, and torch's largest error
    by norm: `norm_factor` times torch's own error, or `norm_floor` times the reference's norm where that is more
    """

    factor: float = Field(default=4.0, gt=0)
    norm_factor: float = Field(default=4.0, gt=0)
    norm_floor: Mapping[Dtype, float]
    reduction: str = "1"  # a formula over the axes
    forward: Narrower | None = None

    def of(self, direction: Direction) -> "Tolerance":
        """The budget of one direction."""
        if self.forward is None or direction is not Direction.FORWARD:
            return self.model_copy(update={"forward": None})
        own = self.forward
        return Tolerance(
            factor=self.factor,
            norm_factor=own.norm_factor or self.norm_factor,
            norm_floor={**self.norm_floor, **own.norm_floor},
            reduction=own.reduction or self.reduction,
        )


class Precision(Model):
    """What arithmetic the task lets a kernel use."""

    tf32: bool = False
    fast_math: bool = False
    accumulate: Dtype = Dtype.FLOAT32

    def arithmetic(self, dtype: Dtype) -> str:
        """The name of the ceiling that products of an element type are held against; TF32 stands for float32 alone."""
        return "tf32" if self.tf32 and dtype is Dtype.FLOAT32 else dtype.value


class WorkFormulas(Model):
    """Formulas over the axes, with `size` the bytes of an element, for the work a direction must do."""

    flops: str
    bytes: str


class Work(Model):
    """What one call of a case cannot do without, counted where nobody wrote formulas."""

    flops: float = Field(ge=0)  # of products
    bytes: float = Field(ge=0)  # read and written


class Origin(StrEnum):
    """Whose format a task was written in."""

    SUITE = "suite"
    ROBUST_KBENCH = "robust_kbench"
    KERNELBENCH = "kernelbench"
    MODULE = "module"


class Task(Model):
    """A torch function to be replaced, as far as it can be said without running it."""

    name: str
    version: str
    origin: Origin
    description: str
    source: str
    forward: Signature
    backward: Signature | None = None
    axes: tuple[Axis, ...] = ()
    cases: tuple[Case, ...]
    shapes: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)  # of tensors by case, where axes do not tell
    heldout: Heldout | None = None
    tolerance: Tolerance
    precision: Precision = Precision()
    libraries: tuple[str, ...] = ()
    cost: Mapping[Direction, WorkFormulas] = Field(default_factory=dict)
    work: Mapping[Direction, Mapping[str, Work]] = Field(default_factory=dict)  # by case, where there are no formulas

    @property
    def directions(self) -> tuple[Direction, ...]:
        """The directions a kernel can be written for."""
        return (Direction.FORWARD,) if self.backward is None else tuple(Direction)

    @property
    def shape_lines(self) -> tuple[str, ...]:
        """The shapes of the cases' tensors for people; cases of the same shapes share a line."""
        found: dict[tuple[str, ...], list[str]] = {}
        for name, shapes in self.shapes.items():
            found.setdefault(shapes, []).append(name)
        return tuple(f"{', '.join(names)}: {' '.join(shapes)}" for shapes, names in found.items())

    def signature(self, direction: Direction) -> Signature:
        """The signature of one direction; a `UsageError` where the task lacks it."""
        found = self.forward if direction is Direction.FORWARD else self.backward
        if found is None:
            raise UsageError(f"Task {self.name} has no {direction} direction; it has {', '.join(self.directions)}.")
        return found

    @property
    def multiplies_matrices(self) -> bool:
        """Whether its results are sums of products, as its formulas say: it computes far more than it moves."""
        if self.origin is not Origin.SUITE or not self.forward.is_product:
            return False
        works = [self.least(Direction.FORWARD, case) for case in self.group_or_first(Group.TIMING)]
        return any(one is not None and one.flops > MATRIX_OPERATIONS * one.bytes for one in works)

    def group(self, group: Group) -> tuple[Case, ...]:
        """The cases written for one purpose."""
        return tuple(case for case in self.cases if case.group is group)

    def group_or_first(self, group: Group) -> tuple[Case, ...]:
        """The cases written for one purpose; where there are none, the first of all."""
        return self.group(group) or self.cases[:1]

    def flops(self, direction: Direction, case: Case) -> float | None:
        """The operations that a case cannot do without; None where the task has no formula."""
        return float(evaluate_formula(self.cost[direction].flops, case.variables)) if direction in self.cost else None

    def bytes(self, direction: Direction, case: Case) -> float | None:
        """The bytes that a case cannot do without, read and written; None where the task has no formula."""
        return float(evaluate_formula(self.cost[direction].bytes, case.variables)) if direction in self.cost else None

    def least(self, direction: Direction, case: Case) -> Work | None:
        """What the roofline of a case is made of: by the formulas, else as counted; None where neither is known.

        A count is of one draw of the smallest case, and so no proof: what a time is believed by are formulas alone.
        """
        flops, moved = self.flops(direction, case), self.bytes(direction, case)
        if flops is not None and moved is not None:
            return Work(flops=flops, bytes=moved)
        return self.work.get(direction, {}).get(case.name)

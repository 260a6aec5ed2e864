"""Tasks as data: signatures, cases, tolerances and costs. Loads no torch."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from zlib import crc32

from pydantic import Field, PositiveInt

from warpsmith.base import UsageError, evaluate_formula
from warpsmith.records.dtype import Dtype
from warpsmith.records.model import Model


class Direction(StrEnum):
    """The pass of a task that a kernel implements."""

    FORWARD = "forward"
    BACKWARD = "backward"

    @classmethod
    def from_stem(cls, stem: str) -> "Direction":
        """Return the direction that a file's stem names; forward by default."""
        return cls.BACKWARD if cls.BACKWARD in stem else cls.FORWARD


class ArgumentKind(StrEnum):
    """The type of a kernel's argument."""

    TENSOR = "tensor"
    OPTIONAL_TENSOR = "optional_tensor"
    TENSORS = "tensors"  # a tuple of tensors
    FLOAT = "float"
    INT = "int"
    BOOL = "bool"
    INTS = "ints"


class Role(StrEnum):
    """Origin of an argument, which decides whether it has a gradient."""

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
        """Whether the argument is a tensor with a gradient."""
        return self.kind in (ArgumentKind.TENSOR, ArgumentKind.OPTIONAL_TENSOR) and self.role in (
            Role.INPUT,
            Role.PARAMETER,
        )


class Signature(Model):
    """Arguments of one direction in order, and names of its results."""

    arguments: tuple[Argument, ...]
    results: tuple[str, ...]

    @property
    def is_product(self) -> bool:
        """Whether forward takes two tensors with gradients, so that it can multiply them."""
        # Gradients tell data from indices and tables, which are never factors of a product.
        return sum(argument.multiplies for argument in self.arguments) >= PRODUCT_TENSORS

    @property
    def pairs_inputs(self) -> bool:
        """Whether forward takes two inputs with gradients."""
        inputs = [one for one in self.arguments if one.multiplies and one.role is Role.INPUT]
        return len(inputs) >= PRODUCT_TENSORS


class Group(StrEnum):
    """Purpose of a case. Held-out cases are drawn with a secret seed."""

    SMOKE = "smoke"
    DEV = "dev"
    TIMING = "timing"
    HELDOUT = "heldout"


MATRIX_OPERATIONS = 8  # a byte moved; a task that multiplies no matrices has 3.25 at most


class Family(StrEnum):
    """A distribution of inputs; its row is in tasks/inputs/families.py."""

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
    """A distribution of parameters around their mean and standard deviation."""

    DEFAULT = "default"  # mean + std * normal
    FRESH = "fresh"  # the mean everywhere: a module that was never trained
    WIDE = "wide"  # four times the spread
    SIGNED = "signed"  # mean and spread with a random sign: no gain is positive for certain


class Axis(Model):
    """A named size or number, with the largest value of a case."""

    name: str
    meaning: str
    maximum: PositiveInt


class Case(Model):
    """One point of a task: sizes, element type, inits and families."""

    name: str
    group: Group
    axes: Mapping[str, int]
    dtype: Dtype
    inits: tuple[Init, ...] = (Init.DEFAULT,)
    families: tuple[Family, ...] = (Family.NORMAL,)

    def sizes(self, *names: str) -> tuple[int, ...]:
        """Return the sizes of the named axes in that order."""
        return tuple(self.axes[name] for name in names)

    def pick(self, values: Sequence[float]) -> float:
        """Return one of the numbers by shape and type.

        The choice is the same for every test input of a case: a captured call is replayed with other inputs and keeps
        its numbers.
        """
        # crc32, not hash(): Python salts the hash of a string in each process.
        return values[crc32(self.shape.encode()) % len(values)]

    @property
    def shape(self) -> str:
        """Sizes and element type as text."""
        return ", ".join([*(f"{name} = {size}" for name, size in self.axes.items()), self.dtype])

    @property
    def variables(self) -> dict[str, int]:
        """Variables of a task's formulas: the axes, and `size` for the bytes of an element."""
        return {**self.axes, "size": self.dtype.bytes}


class Twist(StrEnum):
    """A change of drawn inputs, which exposes kernels that remember other inputs."""

    NONE = "none"
    NUDGED = "nudged"  # one element of one tensor is another
    SHUFFLED = "shuffled"  # the same values in another order: every simple statistic stays
    RAISED = "raised"  # half of a row is far above all others
    PEAKED = "peaked"  # half of a row is farther above all others than exponents of float32 reach
    SCALED = "scaled"  # inputs by turns are past what float16 holds at either end, and their product is what it was

    @property
    def enlarges(self) -> bool:
        """Whether results may exceed their element type."""
        return self in (Twist.RAISED, Twist.PEAKED, Twist.SCALED)


class Trial(Model):
    """One test input: case, init, family, seed and twist."""

    case: Case
    init: Init = Init.DEFAULT
    family: Family = Family.NORMAL
    seed: int = 0
    twist: Twist = Twist.NONE

    @property
    def draw(self) -> str:
        """The family, init and twist as text."""
        twist = "" if self.twist is Twist.NONE else f", {self.twist}"
        return f"{self.family} inputs, {self.init} parameters{twist}"


class Reach(Model):
    """Values of an axis in a held-out case: `low` to `high` in steps of `multiple`."""

    low: int
    high: int
    multiple: PositiveInt = 1


class Heldout(Model):
    """Ranges of held-out shapes."""

    axes: Mapping[str, Reach]
    dtypes: tuple[Dtype, ...]
    inits: tuple[Init, ...] = (Init.DEFAULT,)
    families: tuple[Family, ...] = (Family.NORMAL,)
    require: tuple[str, ...] = ()  # formulas over the axes that must be non-zero
    count: PositiveInt = 5  # one of each kind of size


class Narrower(Model):
    """Parts of an error budget that are narrower in forward.

    Gradients sum over other axes and subtract close numbers, so backward needs the wider budget.
    """

    norm_factor: float | None = Field(default=None, gt=0)
    norm_floor: Mapping[Dtype, float] = Field(default_factory=dict)  # of the element types that are named
    reduction: str | None = None


class Tolerance(Model):
    """The error budget; evaluation/check/compare.py has the formulas.

    elementwise: `factor` times the rounding of a value, of a sum of `reduction` terms, and torch's largest error
    by norm: `norm_factor` times torch's own error, or `norm_floor` times the reference's norm where that is more
    """

    factor: float = Field(default=4.0, gt=0)
    norm_factor: float = Field(default=4.0, gt=0)
    norm_floor: Mapping[Dtype, float]
    reduction: str = "1"  # a formula over the axes
    forward: Narrower | None = None

    def of(self, direction: Direction) -> "Tolerance":
        """Return the error budget of one direction."""
        if self.forward is None or direction is not Direction.FORWARD:
            # A copy without the narrower part, so that the result is complete by itself.
            return self.model_copy(update={"forward": None})
        own = self.forward
        return Tolerance(
            factor=self.factor,
            # A value that the narrower part leaves out is that of the wider budget.
            norm_factor=own.norm_factor or self.norm_factor,
            norm_floor={**self.norm_floor, **own.norm_floor},
            reduction=own.reduction or self.reduction,
        )


class Precision(Model):
    """Arithmetic that a task allows."""

    tf32: bool = False
    fast_math: bool = False
    accumulate: Dtype = Dtype.FLOAT32

    def arithmetic(self, dtype: Dtype) -> str:
        """Return the name of the arithmetic ceiling for an element type."""
        # TF32 is a rounding of float32 inputs inside the tensor cores, not an element type of its own.
        return "tf32" if self.tf32 and dtype is Dtype.FLOAT32 else dtype.value


class WorkFormulas(Model):
    """Formulas of a direction's least work over the axes and `size`."""

    flops: str
    bytes: str


class Work(Model):
    """Least work of one call, counted for tasks without formulas."""

    flops: float = Field(ge=0)  # of products
    bytes: float = Field(ge=0)  # read and written


class Origin(StrEnum):
    """The format that a task was written in."""

    SUITE = "suite"
    ROBUST_KBENCH = "robust_kbench"
    KERNELBENCH = "kernelbench"
    MODULE = "module"


class Task(Model):
    """A torch function to replace, as data."""

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
        """The directions that a kernel can implement."""
        return (Direction.FORWARD,) if self.backward is None else tuple(Direction)

    @property
    def shape_lines(self) -> tuple[str, ...]:
        """Tensor shapes by case as lines; cases with equal shapes share a line."""
        found: dict[tuple[str, ...], list[str]] = {}
        for name, shapes in self.shapes.items():
            # Element types share their shapes, so most cases share a line.
            found.setdefault(shapes, []).append(name)
        return tuple(f"{', '.join(names)}: {' '.join(shapes)}" for shapes, names in found.items())

    def signature(self, direction: Direction) -> Signature:
        """Return a direction's signature. Raise UsageError if the task lacks it."""
        found = self.forward if direction is Direction.FORWARD else self.backward
        if found is None:
            raise UsageError(f"Task {self.name} has no {direction} direction; it has {', '.join(self.directions)}.")
        return found

    @property
    def multiplies_matrices(self) -> bool:
        """Whether the formulas say that results are sums of products."""
        if self.origin is not Origin.SUITE or not self.forward.is_product:
            return False
        # A count of operations proves nothing for a foreign task, so the answer needs the suite's formulas.
        # Timing cases have the sizes of real use; a tiny case moves more bytes for each operation.
        works = [self.least(Direction.FORWARD, case) for case in self.group_or_first(Group.TIMING)]
        return any(one is not None and one.flops > MATRIX_OPERATIONS * one.bytes for one in works)

    def group(self, group: Group) -> tuple[Case, ...]:
        """Return the cases of a group."""
        return tuple(case for case in self.cases if case.group is group)

    def group_or_first(self, group: Group) -> tuple[Case, ...]:
        """Return the cases of a group, or the first case if it is empty."""
        # A foreign task may have cases of one group only.
        return self.group(group) or self.cases[:1]

    def flops(self, direction: Direction, case: Case) -> float | None:
        """Return a case's operations, or None without formula."""
        return float(evaluate_formula(self.cost[direction].flops, case.variables)) if direction in self.cost else None

    def bytes(self, direction: Direction, case: Case) -> float | None:
        """Return the bytes that a case must read and write, or None without a formula."""
        return float(evaluate_formula(self.cost[direction].bytes, case.variables)) if direction in self.cost else None

    def least(self, direction: Direction, case: Case) -> Work | None:
        """Return the least work of a case by formula, else as counted, or None."""
        # A count comes from one test input of the smallest case and proves nothing: only formulas refuse a time.
        flops, moved = self.flops(direction, case), self.bytes(direction, case)
        if flops is not None and moved is not None:
            return Work(flops=flops, bytes=moved)
        return self.work.get(direction, {}).get(case.name)

"""Skeletons: kernel files with a task's exact signature that compile unchanged."""

import re
from collections.abc import Callable, Sequence

from warpsmith.records import Argument, ArgumentKind, Direction, Signature, Task
from warpsmith.tasks.formats import identifier, identifiers

TORCH_TYPES = {
    ArgumentKind.TENSOR: "torch::Tensor",
    ArgumentKind.OPTIONAL_TENSOR: "std::optional<torch::Tensor>",
    ArgumentKind.TENSORS: "std::vector<torch::Tensor>",
    ArgumentKind.FLOAT: "double",
    ArgumentKind.INT: "int64_t",
    ArgumentKind.BOOL: "bool",
    ArgumentKind.INTS: "std::vector<int64_t>",
}
PLAIN_TYPES = {
    ArgumentKind.TENSOR: "const DLTensor* {0}",
    ArgumentKind.OPTIONAL_TENSOR: "const DLTensor* {0}",
    ArgumentKind.TENSORS: "const DLTensor* const* {0}, int64_t {0}_count",
    ArgumentKind.FLOAT: "double {0}",
    ArgumentKind.INT: "int64_t {0}",
    ArgumentKind.BOOL: "bool {0}",
    ArgumentKind.INTS: "const int64_t* {0}, int64_t {0}_count",
}
WIDTH = 110


def torch_skeleton(task: Task, direction: Direction) -> str:
    """Return a file of torch functions. Raise UsageError for a direction that the task lacks."""
    return _skeleton(task, direction, _torch)


def plain_skeleton(task: Task, direction: Direction) -> str:
    """Return a file of `extern "C"` functions. Raise UsageError for a direction that the task lacks."""
    return _skeleton(task, direction, _plain)


def _skeleton(task: Task, direction: Direction, body: Callable[[Task, Direction, Signature], list[str]]) -> str:
    """Return the comment and the body for a signature."""
    signature = _with_valid_names(task.signature(direction))
    return "\n".join([*_comment(task, direction, signature), *body(task, direction, signature), ""])


def _with_valid_names(signature: Signature) -> Signature:
    """Return the signature with distinct names that C++ accepts."""
    names = identifiers([*(argument.name for argument in signature.arguments), *signature.results])
    count = len(signature.arguments)
    arguments = [a.model_copy(update={"name": n}) for a, n in zip(signature.arguments, names, strict=False)]
    return Signature(arguments=tuple(arguments), results=tuple(names[count:]))


def _comment(task: Task, direction: Direction, signature: Signature) -> list[str]:
    """Return the comment that describes task, arguments, sizes and cases."""
    taken = ", ".join(argument.name for argument in signature.arguments)
    lines = [
        f"{task.name}, {direction}: {task.description}",
        "",
        f"{direction}({taken}) -> {', '.join(signature.results)}",
    ]
    rows = [(a.name, f"{a.kind}, {a.role}") for a in signature.arguments]
    rows += [(result, "tensor, result") for result in signature.results]
    width = max(len(name) for name, _ in rows)
    lines += [f"  {name:<{width}}  {what}" for name, what in rows]
    if task.axes:
        lines += ["", "Sizes:", *(f"  {axis.name}: {axis.meaning}" for axis in task.axes)]
    lines += ["", "Cases:"]
    for case in task.cases:
        sizes = [f"{name}={size}" for name, size in case.axes.items()]
        lines.append(f"  {case.name} ({case.group}): {' '.join([*sizes, case.dtype])}")
    if task.shapes:
        lines += ["", "Shapes:", *(f"  {line}" for line in task.shape_lines)]
    folded = [part for line in lines for part in _fold_line(line)]
    return [f"// {line}".rstrip() for line in folded]


def _fold_line(line: str) -> list[str]:
    """Return a comment line in parts that fit, without comment ends and line continuations."""
    # A backslash at the end of a comment would continue it on the next line of code.
    clean = " ".join(line.replace("\\", "/").splitlines())
    indent = re.match(r" *", clean)
    lead = indent.group() if indent else ""
    rows = [lead]
    for word in clean.split():
        if len(rows[-1]) + len(word) > WIDTH and rows[-1].strip():
            rows.append(f"{lead}  ")
        rows[-1] += word if not rows[-1].strip() else f" {word}"
    if clean.strip() and "  " in clean.strip():
        return [clean[:WIDTH]]  # a row of a table keeps its columns
    return rows


def _torch(task: Task, direction: Direction, signature: Signature) -> list[str]:
    """Return the body of a PyTorch extension."""
    name = _kernel_name(task, direction)
    taken = [f"{TORCH_TYPES[argument.kind]} {argument.name}" for argument in signature.arguments]
    single = len(signature.results) == 1
    made = [line for result in signature.results for line in _result_lines(result, signature)]
    given = signature.results[0] if single else f"{{{', '.join(signature.results)}}}"
    return [
        "#include <torch/extension.h>",
        "",
        "#include <ATen/cuda/CUDAContext.h>",
        "#include <cuda_runtime.h>",
        "",
        "#include <optional>",
        "#include <vector>",
        "",
        *_stub(name),
        "",
        *_function_head(f"{'torch::Tensor' if single else 'std::vector<torch::Tensor>'} {direction}(", taken),
        *made,
        f"  {name}<<<1, 32, 0, at::cuda::getCurrentCUDAStream()>>>();",
        f"  return {given};",
        "}",
        "",
        "PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {",
        f'  m.def("{direction}", &{direction}, "{identifier(task.name)} {direction}");',
        "}",
    ]


def _plain(task: Task, direction: Direction, signature: Signature) -> list[str]:
    """Return the body of an `extern "C"` file."""
    name = _kernel_name(task, direction)
    taken = [PLAIN_TYPES[argument.kind].format(argument.name) for argument in signature.arguments]
    results = [f"DLTensor* {result}" for result in signature.results]
    return [
        "#include <cuda_runtime.h>",
        "#include <warpsmith/abi.h>",
        "",
        *_stub(name),
        "",
        "// Results come with their memory: write every element. Return 0 when fine.",
        *_function_head(f'extern "C" int {direction}(', [*taken, *results, "cudaStream_t stream"]),
        f"  {name}<<<1, 32, 0, stream>>>();",
        "  return cudaGetLastError() == cudaSuccess ? 0 : 1;",
        "}",
    ]


def _kernel_name(task: Task, direction: Direction) -> str:
    """Return a name for the `__global__` function."""
    name = identifier(task.name)
    return f"task{name}_{direction}_kernel" if name.startswith("_") else f"{name}_{direction}_kernel"


def _stub(name: str) -> list[str]:
    """Return an empty `__global__` function."""
    return [f"__global__ void {name}() {{", "  // The work goes here; give it the pointers and sizes it needs.", "}"]


def _function_head(start: str, parameters: Sequence[str]) -> list[str]:
    """Return a function's head, on one line if it fits."""
    line = f"{start}{', '.join(parameters)}) {{"
    if len(line) <= WIDTH:
        return [line]
    rows = [
        f"    {parameter}{',' if place + 1 < len(parameters) else ') {'}" for place, parameter in enumerate(parameters)
    ]
    return [start, *rows]


def _result_lines(result: str, signature: Signature) -> list[str]:
    """Return the lines that allocate a result."""
    like = _gradient_of(result, signature.arguments)
    if like:
        return [f"  auto {result} = torch::empty_like({like});"]
    first = next((shown for argument in signature.arguments if (shown := _tensor(argument))), None)
    made = f"torch::empty_like({first})" if first else "torch::empty({1}, torch::TensorOptions().device(torch::kCUDA))"
    return [f"  auto {result} = {made};  // give it the shape and type that the torch function returns"]


def _gradient_of(result: str, arguments: Sequence[Argument]) -> str | None:
    """Return the argument whose gradient a result is, or None."""
    name = result.removeprefix("grad_")
    if name == result:
        return None
    whole = next((argument for argument in arguments if argument.name == name), None)
    if whole:
        return _tensor(whole)
    stem, _, place = name.rpartition("_")
    part = next((a for a in arguments if a.name == stem and a.kind is ArgumentKind.TENSORS), None)
    return f"{stem}[{place}]" if part and place.isdigit() else None


def _tensor(argument: Argument) -> str | None:
    """Return an expression for an argument's tensor, or None."""
    match argument.kind:
        case ArgumentKind.TENSOR:
            return argument.name
        case ArgumentKind.TENSORS:
            return f"{argument.name}[0]"
        case ArgumentKind.OPTIONAL_TENSOR:
            return f"{argument.name}.value()"
    return None

"""The C++ of an exported package: what is compiled around a kernel's text, which itself stays as it was evaluated."""

from collections.abc import Mapping

from warpsmith.base import UsageError
from warpsmith.records import Argument, Candidate, Direction, Kind, Language, Signature

# What our own headers of torch's names bring along without being asked, by torch's own names.
TORCH_HEADERS = (
    "torch/extension.h",
    "ATen/cuda/CUDAContext.h",
    "c10/cuda/CUDAException.h",
    "c10/cuda/CUDAGuard.h",
    "cuda_bf16.h",
    "cuda_fp16.h",
    "cuda_runtime.h",
    "algorithm",
    "cfloat",
    "climits",
    "cmath",
    "cstdint",
    "limits",
    "optional",
    "vector",
)
PLAIN_HEADERS = ("warpsmith/abi.h", "cuda_runtime.h", "algorithm", "cfloat", "cmath", "cstdint", "limits")
UNIT = """// What is compiled: the headers, the values that the tunables were evaluated with, the kernel.
{includes}{lenient}
{macros}#include "{direction}.cu"
"""
WRAPPER = """// Hands torch's tensors to the plain kernel as DLPack's, on torch's current stream.
#include <ATen/dlpack.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/extension.h>

#include <optional>
#include <vector>

extern "C" int {direction}({declared}cudaStream_t stream);

namespace {{

// A tensor's description; it borrows the tensor's memory, shape and strides.
struct Borrowed {{
  DLTensor tensor{{}};
  bool there = false;

  explicit Borrowed(const std::optional<at::Tensor>& from) {{
    if (!from || !from->defined()) return;
    there = true;
    tensor.data = from->data_ptr();
    tensor.device = {{kDLCUDA, from->get_device()}};
    tensor.ndim = static_cast<int32_t>(from->dim());
    tensor.dtype = type(from->scalar_type());
    tensor.shape = const_cast<int64_t*>(from->sizes().data());
    tensor.strides = const_cast<int64_t*>(from->strides().data());
  }}

  static DLDataType type(at::ScalarType scalar) {{
    const auto bits = static_cast<uint8_t>(8 * c10::elementSize(scalar));
    const int code = scalar == at::kBFloat16           ? 4
                     : scalar == at::kBool             ? 6
                     : c10::isFloatingType(scalar)     ? 2
                     : scalar == at::kByte             ? 1
                                                       : 0;
    return {{static_cast<uint8_t>(code), bits, 1}};
  }}

  DLTensor* get() {{ return there ? &tensor : nullptr; }}
}};

struct Many {{
  std::vector<Borrowed> all;
  std::vector<const DLTensor*> tensors;

  explicit Many(const std::vector<at::Tensor>& from) {{
    for (const auto& one : from) all.emplace_back(one);
    for (auto& one : all) tensors.push_back(one.get());
  }}
}};

void call({parameters}) {{
  const c10::cuda::CUDAGuard guard({first}.device());
{borrowed}
  const int status = ::{direction}({passed}c10::cuda::getCurrentCUDAStream());
  TORCH_CHECK(status == 0, "the {direction} kernel returned status ", status);
}}

}}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{ m.def("{direction}", &call); }}
"""
# Under warpsmith's headers a check of CUDA is an expression (`return C10_CUDA_KERNEL_LAUNCH_CHECK();`); torch's is not.
LENIENT = """
namespace exported {
inline void check(cudaError_t status) { C10_CUDA_CHECK(status); }
}
#undef C10_CUDA_KERNEL_LAUNCH_CHECK
#define C10_CUDA_KERNEL_LAUNCH_CHECK() ::exported::check(cudaGetLastError())
"""
TAKEN = {
    Kind.TENSOR: "at::Tensor {0}",
    Kind.OPTIONAL_TENSOR: "std::optional<at::Tensor> {0}",
    Kind.TENSORS: "std::vector<at::Tensor> {0}",
    Kind.FLOAT: "double {0}",
    Kind.INT: "int64_t {0}",
    Kind.BOOL: "bool {0}",
    Kind.INTS: "std::vector<int64_t> {0}",
}
DECLARED = {
    Kind.TENSOR: "const DLTensor*",
    Kind.OPTIONAL_TENSOR: "const DLTensor*",
    Kind.TENSORS: "const DLTensor* const*, int64_t",
    Kind.FLOAT: "double",
    Kind.INT: "int64_t",
    Kind.BOOL: "bool",
    Kind.INTS: "const int64_t*, int64_t",
}
PASSED = {
    Kind.TENSOR: "{0}_borrowed.get()",
    Kind.OPTIONAL_TENSOR: "{0}_borrowed.get()",
    Kind.TENSORS: "{0}_borrowed.tensors.data(), {0}_borrowed.tensors.size()",
    Kind.FLOAT: "{0}",
    Kind.INT: "{0}",
    Kind.BOOL: "{0}",
    Kind.INTS: "{0}.data(), {0}.size()",
}
BORROWED = {Kind.TENSOR: "Borrowed", Kind.OPTIONAL_TENSOR: "Borrowed", Kind.TENSORS: "Many"}


def kernel_sources(candidate: Candidate, signature: Signature, abi: str) -> Mapping[str, str]:
    """The files of one direction by their names in the folder of kernels; `abi` is the header of plain kernels."""
    direction = candidate.direction
    if "warpsmith/tensor_map.h" in candidate.source:
        raise UsageError(
            f"The {direction} kernel makes its tensor maps by warpsmith/tensor_map.h, which an exported package does "
            "not have. Make them with cuTensorMapEncodeTiled of your own build."
        )
    files = {f"{direction}.cu": candidate.source, f"{direction}_unit.cu": _unit(candidate)}
    if candidate.language is Language.PLAIN:
        files |= {f"{direction}_torch.cpp": _wrapper(direction, signature), "include/warpsmith/abi.h": abi}
    return files


def compiled(candidate: Candidate) -> tuple[str, ...]:
    """Which of the files the compiler is given."""
    units = (f"{candidate.direction}_unit.cu",)
    return units if candidate.language is Language.TORCH else (*units, f"{candidate.direction}_torch.cpp")


def _unit(candidate: Candidate) -> str:
    """The macros come after the headers, or a tunable called N would change the headers' own names."""
    torch = candidate.language is Language.TORCH
    headers = TORCH_HEADERS if torch else PLAIN_HEADERS
    return UNIT.format(
        includes="".join(f"#include <{header}>\n" for header in headers),
        lenient=LENIENT if torch else "",
        macros="".join(f"#define {name} {value}\n" for name, value in sorted(candidate.macros.items())),
        direction=candidate.direction,
    )


def _wrapper(direction: Direction, signature: Signature) -> str:
    results = tuple(Argument(name=name, kind=Kind.TENSOR, role="input") for name in signature.results)
    every = (*signature.arguments, *results)
    declared = [DECLARED[a.kind] for a in signature.arguments] + ["DLTensor*" for _ in results]
    return WRAPPER.format(
        direction=direction,
        declared="".join(f"{one}, " for one in declared),
        parameters=", ".join(TAKEN[a.kind].format(a.name) for a in every),
        first=signature.results[0],
        borrowed="\n".join(f"  {BORROWED[a.kind]} {a.name}_borrowed({a.name});" for a in every if a.kind in BORROWED),
        passed="".join(f"{PASSED[a.kind].format(a.name)}, " for a in every),
    )

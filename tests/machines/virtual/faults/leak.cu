// Work on a side stream that the caller's stream never waits for. The finding names the kernel, not a line.
#include "fault.h"

__global__ void scale(const float* x, float* out, float by, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * by;
}

// A stream of its own, forked from the caller's and, when repaired, joined again.
template <bool kFixed>
struct Side {
  cudaStream_t stream;
  cudaEvent_t event;
  explicit Side(cudaStream_t from) {
    C10_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    C10_CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    C10_CUDA_CHECK(cudaEventRecord(event, from));
    C10_CUDA_CHECK(cudaStreamWaitEvent(stream, event, 0));
  }
  void join(cudaStream_t to) {
    C10_CUDA_CHECK(cudaEventRecord(event, stream));
    if constexpr (kFixed) C10_CUDA_CHECK(cudaStreamWaitEvent(to, event, 0));
  }
};

// fault: unjoined_kernel
template <bool kFixed>
torch::Tensor unjoined_kernel(torch::Tensor x) {
  auto out = torch::empty_like(x);
  Side<kFixed> side(stream());
  scale<<<4, 256, 0, side.stream>>>(x.data_ptr<float>(), out.data_ptr<float>(), 2.f, x.numel());
  side.join(stream());
  return out;
}

// fault: unjoined_memset
template <bool kFixed>
torch::Tensor unjoined_memset(torch::Tensor x) {
  auto out = torch::empty_like(x);
  Side<kFixed> side(stream());
  C10_CUDA_CHECK(cudaMemsetAsync(out.data_ptr(), 0, x.nbytes(), side.stream));
  side.join(stream());
  return out;
}

// fault: unjoined_copy
template <bool kFixed>
torch::Tensor unjoined_copy(torch::Tensor x) {
  auto out = torch::empty_like(x);
  Side<kFixed> side(stream());
  C10_CUDA_CHECK(cudaMemcpyAsync(out.data_ptr(), x.data_ptr(), x.nbytes(), cudaMemcpyDeviceToDevice, side.stream));
  side.join(stream());
  return out;
}

// Joined too early: the second kernel comes after the event.
// fault: joined_too_early
template <bool kFixed>
torch::Tensor joined_too_early(torch::Tensor x) {
  auto between = torch::empty_like(x), out = torch::empty_like(x);
  Side<true> side(stream());
  scale<<<4, 256, 0, side.stream>>>(x.data_ptr<float>(), between.data_ptr<float>(), 2.f, x.numel());
  if constexpr (!kFixed) side.join(stream());
  scale<<<4, 256, 0, side.stream>>>(between.data_ptr<float>(), out.data_ptr<float>(), 2.f, x.numel());
  if constexpr (kFixed) side.join(stream());
  return out;
}

// fault: unjoined_graph
template <bool kFixed>
torch::Tensor unjoined_graph(torch::Tensor x) {
  auto out = torch::empty_like(x);
  Side<kFixed> side(stream());
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  C10_CUDA_CHECK(cudaStreamBeginCapture(side.stream, cudaStreamCaptureModeRelaxed));
  scale<<<4, 256, 0, side.stream>>>(x.data_ptr<float>(), out.data_ptr<float>(), 2.f, x.numel());
  C10_CUDA_CHECK(cudaStreamEndCapture(side.stream, &graph));
  C10_CUDA_CHECK(cudaGraphInstantiate(&exec, graph, 0));
  C10_CUDA_CHECK(cudaGraphLaunch(exec, side.stream));
  side.join(stream());
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &unjoined_kernel<true>);
  HOST_TWINS(unjoined_kernel);
  HOST_TWINS(unjoined_memset);
  HOST_TWINS(unjoined_copy);
  HOST_TWINS(joined_too_early);
  HOST_TWINS(unjoined_graph);
}

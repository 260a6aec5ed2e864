// What the host may ask for in one call: streams, events, graphs, copies, symbols, questions about the device.
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

static cudaStream_t stream() { return at::cuda::getCurrentCUDAStream(); }

__global__ void scale_kernel(const float* x, float* out, float by, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * by;
}
__global__ void add_kernel(const float* a, const float* b, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a[i] + b[i];
}

// Fork from the caller's stream, work on two, join again.
torch::Tensor joined_streams(torch::Tensor x) {
  auto a = torch::empty_like(x), b = torch::empty_like(x), out = torch::empty_like(x);
  int n = x.numel(), blocks = (n + 127) / 128;
  cudaStream_t side;
  cudaEvent_t fork, join;
  C10_CUDA_CHECK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
  C10_CUDA_CHECK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
  C10_CUDA_CHECK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
  C10_CUDA_CHECK(cudaEventRecord(fork, stream()));
  C10_CUDA_CHECK(cudaStreamWaitEvent(side, fork, 0));
  scale_kernel<<<blocks, 128, 0, side>>>(x.data_ptr<float>(), a.data_ptr<float>(), 2.f, n);
  scale_kernel<<<blocks, 128, 0, stream()>>>(x.data_ptr<float>(), b.data_ptr<float>(), 3.f, n);
  C10_CUDA_CHECK(cudaEventRecord(join, side));
  C10_CUDA_CHECK(cudaStreamWaitEvent(stream(), join, 0));
  add_kernel<<<blocks, 128, 0, stream()>>>(a.data_ptr<float>(), b.data_ptr<float>(), out.data_ptr<float>(), n);
  C10_CUDA_CHECK(cudaEventDestroy(fork));
  C10_CUDA_CHECK(cudaEventDestroy(join));
  C10_CUDA_CHECK(cudaStreamDestroy(side));
  return out;
}

// The legacy default stream waits for blocking streams, and they for it.
torch::Tensor synchronized_streams(torch::Tensor x) {
  auto a = torch::empty_like(x), out = torch::empty_like(x);
  int n = x.numel(), blocks = (n + 127) / 128;
  cudaStream_t side;
  C10_CUDA_CHECK(cudaStreamSynchronize(stream()));
  C10_CUDA_CHECK(cudaStreamCreate(&side));
  scale_kernel<<<blocks, 128, 0, side>>>(x.data_ptr<float>(), a.data_ptr<float>(), 5.f, n);
  C10_CUDA_CHECK(cudaStreamSynchronize(side));
  scale_kernel<<<blocks, 128, 0, stream()>>>(a.data_ptr<float>(), out.data_ptr<float>(), 0.5f, n);
  C10_CUDA_CHECK(cudaStreamDestroy(side));
  return out;
}

// Captured once, launched twice; the second launch of the kernel node has another factor.
torch::Tensor updated_graph(torch::Tensor x) {
  auto out = torch::empty_like(x), sum = torch::empty_like(x);
  int n = x.numel(), blocks = (n + 127) / 128;
  cudaStream_t capture;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  C10_CUDA_CHECK(cudaStreamCreateWithFlags(&capture, cudaStreamNonBlocking));
  C10_CUDA_CHECK(cudaStreamBeginCapture(capture, cudaStreamCaptureModeThreadLocal));
  C10_CUDA_CHECK(cudaMemsetAsync(out.data_ptr<float>(), 0, n * sizeof(float), capture));
  scale_kernel<<<blocks, 128, 0, capture>>>(x.data_ptr<float>(), out.data_ptr<float>(), 2.f, n);
  C10_CUDA_CHECK(cudaStreamEndCapture(capture, &graph));
  C10_CUDA_CHECK(cudaGraphInstantiate(&exec, graph, 0));
  C10_CUDA_CHECK(cudaGraphLaunch(exec, stream()));
  C10_CUDA_CHECK(cudaMemcpyAsync(sum.data_ptr<float>(), out.data_ptr<float>(), n * sizeof(float),
                                 cudaMemcpyDeviceToDevice, stream()));

  cudaGraphNode_t nodes[2], kernel = nullptr;
  size_t count = 2;
  C10_CUDA_CHECK(cudaGraphGetNodes(graph, nodes, &count));
  for (size_t i = 0; i < count; ++i) {
    cudaGraphNodeType type;
    C10_CUDA_CHECK(cudaGraphNodeGetType(nodes[i], &type));
    if (type == cudaGraphNodeTypeKernel) kernel = nodes[i];
  }
  const float* from = x.data_ptr<float>();
  float *to = out.data_ptr<float>(), by = 10.f;
  void* arguments[] = {&from, &to, &by, &n};
  cudaKernelNodeParams node = {};
  node.func = reinterpret_cast<void*>(scale_kernel);
  node.gridDim = dim3(blocks), node.blockDim = dim3(128), node.kernelParams = arguments;
  C10_CUDA_CHECK(cudaGraphExecKernelNodeSetParams(exec, kernel, &node));
  C10_CUDA_CHECK(cudaGraphLaunch(exec, stream()));
  add_kernel<<<blocks, 128, 0, stream()>>>(sum.data_ptr<float>(), out.data_ptr<float>(), sum.data_ptr<float>(), n);
  C10_CUDA_CHECK(cudaStreamSynchronize(stream()));
  C10_CUDA_CHECK(cudaGraphExecDestroy(exec));
  C10_CUDA_CHECK(cudaGraphDestroy(graph));
  C10_CUDA_CHECK(cudaStreamDestroy(capture));
  return sum;
}

// A fork and a join inside a capture become edges of the graph.
torch::Tensor forked_graph(torch::Tensor x) {
  auto a = torch::empty_like(x), b = torch::empty_like(x), out = torch::empty_like(x);
  int n = x.numel(), blocks = (n + 127) / 128;
  cudaStream_t first, second;
  cudaEvent_t fork, join;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  C10_CUDA_CHECK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
  C10_CUDA_CHECK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
  C10_CUDA_CHECK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
  C10_CUDA_CHECK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
  C10_CUDA_CHECK(cudaStreamBeginCapture(first, cudaStreamCaptureModeRelaxed));
  C10_CUDA_CHECK(cudaEventRecord(fork, first));
  C10_CUDA_CHECK(cudaStreamWaitEvent(second, fork, 0));
  scale_kernel<<<blocks, 128, 0, first>>>(x.data_ptr<float>(), a.data_ptr<float>(), 7.f, n);
  scale_kernel<<<blocks, 128, 0, second>>>(x.data_ptr<float>(), b.data_ptr<float>(), -2.f, n);
  C10_CUDA_CHECK(cudaEventRecord(join, second));
  C10_CUDA_CHECK(cudaStreamWaitEvent(first, join, 0));
  add_kernel<<<blocks, 128, 0, first>>>(a.data_ptr<float>(), b.data_ptr<float>(), out.data_ptr<float>(), n);
  C10_CUDA_CHECK(cudaStreamEndCapture(first, &graph));
  C10_CUDA_CHECK(cudaGraphInstantiate(&exec, graph, 0));
  C10_CUDA_CHECK(cudaGraphLaunch(exec, stream()));
  C10_CUDA_CHECK(cudaStreamSynchronize(stream()));
  C10_CUDA_CHECK(cudaGraphExecDestroy(exec));
  C10_CUDA_CHECK(cudaGraphDestroy(graph));
  C10_CUDA_CHECK(cudaEventDestroy(fork));
  C10_CUDA_CHECK(cudaEventDestroy(join));
  C10_CUDA_CHECK(cudaStreamDestroy(first));
  C10_CUDA_CHECK(cudaStreamDestroy(second));
  return out;
}

// Memory set, copied within the device, out to the host, back in, and by rows.
torch::Tensor copies(torch::Tensor x) {
  int64_t rows = x.size(0), columns = x.size(1);
  auto out = torch::empty({rows, 2 * columns}, x.options()), within = torch::empty_like(x);
  size_t row = columns * sizeof(float);
  C10_CUDA_CHECK(cudaMemsetAsync(out.data_ptr(), 0, 2 * rows * row, stream()));
  C10_CUDA_CHECK(cudaMemcpyAsync(within.data_ptr(), x.data_ptr(), rows * row, cudaMemcpyDeviceToDevice, stream()));
  std::vector<float> host(rows * columns);
  C10_CUDA_CHECK(cudaMemcpyAsync(host.data(), within.data_ptr(), rows * row, cudaMemcpyDeviceToHost, stream()));
  C10_CUDA_CHECK(cudaStreamSynchronize(stream()));
  for (float& v : host) v += 1.f;
  C10_CUDA_CHECK(cudaMemcpy2DAsync(out.data_ptr(), 2 * row, host.data(), row, row, rows, cudaMemcpyHostToDevice, stream()));
  C10_CUDA_CHECK(cudaMemset2DAsync(out.data_ptr<float>() + columns, 2 * row, 0x3f, row, rows / 2, stream()));
  C10_CUDA_CHECK(cudaStreamSynchronize(stream()));
  return out;
}

__device__ int counter_table[4] = {10, 20, 30, 40};
__global__ void symbol_kernel(int* out) {
  out[threadIdx.x] = atomicAdd(&counter_table[threadIdx.x], 1);
}
// A device variable seen from the host by name and by address.
torch::Tensor symbols(torch::Tensor like) {
  auto out = torch::empty({8}, like.options());
  const int start[4] = {1, 2, 3, 4};
  void* address = nullptr;
  size_t bytes = 0;
  C10_CUDA_CHECK(cudaMemcpyToSymbolAsync(counter_table, start, sizeof start, 0, cudaMemcpyHostToDevice, stream()));
  symbol_kernel<<<1, 4, 0, stream()>>>(out.data_ptr<int>());
  C10_CUDA_CHECK(cudaGetSymbolAddress(&address, counter_table));
  C10_CUDA_CHECK(cudaGetSymbolSize(&bytes, counter_table));
  C10_CUDA_CHECK(cudaMemcpyAsync(out.data_ptr<int>() + 4, address, bytes, cudaMemcpyDeviceToDevice, stream()));
  return out;
}

// Memory in stream order, given back in stream order.
torch::Tensor stream_memory(torch::Tensor x) {
  auto out = torch::empty_like(x);
  int n = x.numel(), blocks = (n + 127) / 128;
  float* between = nullptr;
  C10_CUDA_CHECK(cudaMallocAsync(&between, n * sizeof(float), stream()));
  scale_kernel<<<blocks, 128, 0, stream()>>>(x.data_ptr<float>(), between, 4.f, n);
  scale_kernel<<<blocks, 128, 0, stream()>>>(between, out.data_ptr<float>(), 0.25f, n);
  C10_CUDA_CHECK(cudaFreeAsync(between, stream()));
  return out;
}

// The device as it says it is; the answers go back in a tensor made on the host.
torch::Tensor device_facts(torch::Tensor like) {
  cudaDeviceProp facts;
  cudaFuncAttributes function;
  int blocks = 0, warp = 0;
  C10_CUDA_CHECK(cudaGetDeviceProperties(&facts, 0));
  C10_CUDA_CHECK(cudaFuncGetAttributes(&function, scale_kernel));
  C10_CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, scale_kernel, 256, 0));
  C10_CUDA_CHECK(cudaDeviceGetAttribute(&warp, cudaDevAttrWarpSize, 0));
  const int host[6] = {facts.major, facts.warpSize, facts.maxThreadsPerBlock, warp, blocks, function.maxThreadsPerBlock};
  auto out = torch::empty({6}, like.options());
  C10_CUDA_CHECK(cudaMemcpyAsync(out.data_ptr(), host, sizeof host, cudaMemcpyHostToDevice, stream()));
  return out;
}

// Eight launches in a row, each reading what the last one wrote, through a launch with a configuration struct.
torch::Tensor launch_chain(torch::Tensor x) {
  auto out = x.clone();
  int n = x.numel();
  cudaLaunchConfig_t launch = {};
  launch.gridDim = dim3((n + 63) / 64), launch.blockDim = dim3(64), launch.stream = stream();
  for (int i = 0; i < 8; ++i)
    C10_CUDA_CHECK(cudaLaunchKernelEx(&launch, scale_kernel, static_cast<const float*>(out.data_ptr<float>()),
                                      out.data_ptr<float>(), i % 2 ? 0.5f : 3.f, n));
  return out;
}

torch::Tensor empty_tensor(torch::Tensor x) {
  auto out = torch::empty_like(x);
  if (x.numel() == 0) return out;
  scale_kernel<<<(x.numel() + 127) / 128, 128, 0, stream()>>>(x.data_ptr<float>(), out.data_ptr<float>(), 1.f, x.numel());
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &joined_streams);
  m.def("joined_streams", &joined_streams);
  m.def("synchronized_streams", &synchronized_streams);
  m.def("updated_graph", &updated_graph);
  m.def("forked_graph", &forked_graph);
  m.def("copies", &copies);
  m.def("symbols", &symbols);
  m.def("stream_memory", &stream_memory);
  m.def("device_facts", &device_facts);
  m.def("launch_chain", &launch_chain);
  m.def("empty_tensor", &empty_tensor);
}

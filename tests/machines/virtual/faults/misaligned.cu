// Vector and wide accesses at addresses that are not a multiple of their size.
#include "fault.h"

#include <cuda_fp16.h>
#include <warpsmith/tensor_map.h>

template <bool kFixed>
__global__ void float4_off_by_one(const float* x, float* out, int n) {
  const float* from = x + threadIdx.x * 4 + (kFixed ? 0 : 1);
  float4 v = *reinterpret_cast<const float4*>(from);  // fault: float4_off_by_one
  out[threadIdx.x] = v.x + v.y;
}

template <bool kFixed>
__global__ void float2_store(const float* x, float* out, int n) {
  float2 v = make_float2(x[threadIdx.x], 1.f);
  float* to = out + threadIdx.x * 2 + (kFixed ? 0 : 1);
  *reinterpret_cast<float2*>(to) = v;  // fault: float2_store
}

template <bool kFixed>
__global__ void double_at_four(const float* x, float* out, int n) {
  const char* from = reinterpret_cast<const char*>(x) + threadIdx.x * 8 + (kFixed ? 0 : 4);
  double v = *reinterpret_cast<const double*>(from);  // fault: double_at_four
  out[threadIdx.x] = static_cast<float>(v > 0);
}

template <bool kFixed>
__global__ void shared_int4(const float* x, float* out, int n) {
  extern __shared__ __align__(16) int words[];
  for (int i = threadIdx.x; i < 256; i += 32) words[i] = static_cast<int>(x[i]);
  __syncwarp();
  int at = threadIdx.x * 4 + (kFixed ? 0 : n / 512);
  int4 v = *reinterpret_cast<int4*>(words + at);  // fault: shared_int4
  out[threadIdx.x] = v.x + v.w;
}

template <bool kFixed>
__global__ void half2_at_odd(const float* x, float* out, int n) {
  const __half* from = reinterpret_cast<const __half*>(x) + threadIdx.x * 2 + (kFixed ? 0 : 1);
  __half2 v = *reinterpret_cast<const __half2*>(from);  // fault: half2_at_odd
  out[threadIdx.x] = __low2float(v) == 0.f;
}

template <bool kFixed>
__global__ void wide_atomic(const float* x, float* out, int n) {
  char* to = reinterpret_cast<char*>(out) + threadIdx.x * 8 + (kFixed ? 0 : 4);
  atomicAdd(reinterpret_cast<unsigned long long*>(to), 1ull);  // fault: wide_atomic
}

template <bool kFixed>
__global__ void async_copy(const float* x, float* out, int n) {
  __shared__ __align__(16) float tile[128];
  const float* from = x + threadIdx.x * 4 + (kFixed ? 0 : 2);
  unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(tile + threadIdx.x * 4));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");  // fault: async_copy
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncwarp();
  out[threadIdx.x] = tile[threadIdx.x];
}

template <bool kFixed>
__global__ void vector_sum(const float* x, float* out, int n) {
  float* to = out + threadIdx.x * 4 + (kFixed ? 0 : 1);
  asm volatile("red.global.add.v2.f32 [%0], {%1, %1};" ::"l"(to), "f"(x[threadIdx.x]) : "memory");  // fault: vector_sum
}

// A box of 32 floats of a tensor, by the copy engine, from a place that is not a multiple of 16 bytes.
__global__ void box(const __grid_constant__ CUtensorMap from, int first, float* out) {
  __shared__ __align__(128) float tile[32];
  __shared__ __align__(8) unsigned long long ready;
  const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(tile)), barrier = static_cast<unsigned>(__cvta_generic_to_shared(&ready));
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 128;" ::"r"(barrier) : "memory");
    asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3}], [%2];" ::"r"(to), "l"(&from), "r"(barrier), "r"(first) : "memory");  // fault: tensor_box
  }
  __syncwarp();
  unsigned done = 0;
  while (!done)
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(barrier) : "memory");
  out[threadIdx.x] = tile[threadIdx.x];
}

template <bool kFixed>
torch::Tensor tensor_box(torch::Tensor x) {
  auto out = torch::zeros_like(x);
  const uint64_t sizes[] = {1024}, strides[] = {0};
  const uint32_t boxes[] = {32}, steps[] = {1};
  const auto from = warpsmith::encode_tiled({}, 1, x.data_ptr(), sizes, strides, boxes, steps);
  box<<<1, 32, 0, stream()>>>(from, kFixed ? 4 : 2, out.data_ptr<float>());
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", RUN(float4_off_by_one<true>, 1, 64, 0));
  TWINS(float4_off_by_one, 1, 64, 0);
  TWINS(float2_store, 1, 64, 0);
  TWINS(double_at_four, 1, 64, 0);
  TWINS(shared_int4, 1, 32, 1024);
  TWINS(half2_at_odd, 1, 64, 0);
  TWINS(wide_atomic, 1, 64, 0);
  TWINS(async_copy, 1, 32, 0);
  TWINS(vector_sum, 1, 64, 0);
  HOST_TWINS(tensor_box);
}

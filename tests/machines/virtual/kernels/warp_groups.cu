// Hopper's warp-group products (wgmma) in every layout of shared memory, and tensor copies (TMA) that feed them.
#include <ATen/cuda/CUDAContext.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <torch/extension.h>
#include <warpsmith/tensor_map.h>

static cudaStream_t stream() { return at::cuda::getCurrentCUDAStream(); }

__device__ uint32_t shared_address(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }
__device__ uint64_t descriptor(uint32_t address, uint32_t leading, uint32_t stride, int swizzle) {
  return uint64_t(address >> 4 & 0x3fff) | uint64_t(leading >> 4) << 16 | uint64_t(stride >> 4) << 32 | uint64_t(swizzle) << 62;
}

#define D16(f) f(0), f(1), f(2), f(3), f(4), f(5), f(6), f(7), f(8), f(9), f(10), f(11), f(12), f(13), f(14), f(15)
#define SUM(i) "+f"(d[i])
#define NAMES "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}"

// 64 x 32 from 64 x 16 (or 8) and 16 x 32, both by descriptors.
template <class T, int TransA, int TransB>
__device__ void multiply(float (&d)[16], uint64_t a, uint64_t b, int keep) {
  if constexpr (sizeof(T) == 4)
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %18, 0; wgmma.mma_async.sync.aligned.m64n32k8.f32.tf32.tf32 " NAMES
                 ", %16, %17, p, 1, 1; }" : D16(SUM) : "l"(a), "l"(b), "r"(keep));
  else if constexpr (std::is_same_v<T, __half>)
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %18, 0; wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 " NAMES
                 ", %16, %17, p, 1, 1, %19, %20; }" : D16(SUM) : "l"(a), "l"(b), "r"(keep), "n"(TransA), "n"(TransB));
  else
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %18, 0; wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 " NAMES
                 ", %16, %17, p, 1, 1, %19, %20; }" : D16(SUM) : "l"(a), "l"(b), "r"(keep), "n"(TransA), "n"(TransB));
}
__device__ void fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void finish() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}
__device__ void write_sums(const float (&d)[16], float* out) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int i = 0; i < 16; ++i)
    out[(warp * 16 + lane / 4 + i / 2 % 2 * 8) * 32 + i / 4 * 8 + lane % 4 * 2 + i % 2] = d[i];
}

// Where element (line, place) of an operand lies: lines of `Width` bytes (the swizzle, or 16), eight of them an atom.
// Atoms follow each other along the lines first, then along the places.
template <int Width, class T>
__device__ int offset(int line, int place, int lines) {
  const int byte = place * int(sizeof(T)), at = byte / Width * lines * Width + line * Width + byte % Width;
  return at ^ (at >> 7 & (Width / 16 - 1)) << 4;
}
template <int Width>
constexpr int kMode = Width == 128 ? 1 : Width == 64 ? 2 : Width == 32 ? 3 : 0;

// One product of 64 x k and k x 32, k filling one line of the swizzle; A and B are given as lines along their major axis.
template <class T, int Width, bool TransA, bool TransB>
__global__ void product(const T* a, const T* b, float* out, int k) {
  __shared__ __align__(1024) char left[16384], right[8192];
  const int lines_a = TransA ? k : 64, places_a = TransA ? 64 : k, lines_b = TransB ? k : 32, places_b = TransB ? 32 : k;
  for (int i = threadIdx.x; i < 64 * k; i += 128)
    *reinterpret_cast<T*>(left + offset<Width, T>(i / places_a, i % places_a, lines_a)) = a[i];
  for (int i = threadIdx.x; i < 32 * k; i += 128)
    *reinterpret_cast<T*>(right + offset<Width, T>(i / places_b, i % places_b, lines_b)) = b[i];
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();
  float d[16];
  constexpr int step = 32 / sizeof(T);
  fence();
  for (int at = 0; at < k; at += step) {
    // Eight lines on is 8 * Width; a new column of atoms is lines * Width.
    auto from = [&](const char* base, bool trans, int lines) {
      const int column = lines * Width, atom = 8 * Width;
      const uint32_t start = shared_address(base) + (trans ? at * Width : at * int(sizeof(T)) / Width * column + at * int(sizeof(T)) % Width);
      if (Width == 16) return trans ? descriptor(start, atom, column, 0) : descriptor(start, column, atom, 0);
      return descriptor(start, column, atom, kMode<Width>);
    };
    multiply<T, TransA, TransB>(d, from(left, TransA, lines_a), from(right, TransB, lines_b), at > 0);
  }
  finish();
  write_sums(d, out);
}
template <class T, int Width, bool TransA, bool TransB>
torch::Tensor run(torch::Tensor a, torch::Tensor b) {
  auto out = torch::empty({64, 32}, a.options().dtype(torch::kFloat32));
  const int k = static_cast<int>(a.numel() / 64);
  product<T, Width, TransA, TransB><<<1, 128, 0, stream()>>>(static_cast<const T*>(a.data_ptr()), static_cast<const T*>(b.data_ptr()), out.data_ptr<float>(), k);
  return out;
}

// A in registers and negated, sums of halves that keep what they were.
__global__ void from_registers(const __half* a, const __half* b, __half* out) {
  __shared__ __align__(1024) __half right[8 * 64];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int i = threadIdx.x; i < 16 * 8; i += 128) right[i / 8 % 8 * 8 + i % 8 + i / 64 * 64] = b[i / 8 % 8 * 16 + i / 64 * 8 + i % 8];
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();
  uint32_t x[4], d[2] = {0x3c003c00u, 0x3c003c00u};  // ones
  for (int r = 0; r < 4; ++r)
    x[r] = *reinterpret_cast<const uint32_t*>(a + (warp * 16 + lane / 4 + r % 2 * 8) * 16 + lane % 4 * 2 + r / 2 * 8);
  fence();
  asm volatile("{ .reg .pred p; setp.eq.u32 p, 0, 0; wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16 {%0,%1}, {%2,%3,%4,%5}, %6, p, -1, 1, 0; }"
               : "+r"(d[0]), "+r"(d[1]) : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "l"(descriptor(shared_address(right), 128, 128, 0)));
  finish();
  for (int r = 0; r < 2; ++r)
    *reinterpret_cast<uint32_t*>(out + (warp * 16 + lane / 4 + r * 8) * 8 + lane % 4 * 2) = d[r];
}
torch::Tensor wgmma_registers(torch::Tensor a, torch::Tensor b) {
  auto out = torch::empty({64, 8}, a.options());
  from_registers<<<1, 128, 0, stream()>>>(static_cast<const __half*>(a.data_ptr()), static_cast<const __half*>(b.data_ptr()), static_cast<__half*>(out.data_ptr()));
  return out;
}

// ---- tensor copies ----

template <class T>
CUtensorMap map_of(const torch::Tensor& x, std::vector<uint32_t> box, CUtensorMapSwizzle swizzle, CUtensorMapDataType type) {
  warpsmith::TiledMap kind;
  kind.data_type = type, kind.swizzle = swizzle;
  const unsigned rank = static_cast<unsigned>(x.dim());
  uint64_t sizes[5], strides[5];
  uint32_t steps[5] = {1, 1, 1, 1, 1};
  for (unsigned i = 0; i < rank; ++i) sizes[i] = static_cast<uint64_t>(x.size(rank - 1 - i));
  for (unsigned i = 1; i < rank; ++i) strides[i - 1] = static_cast<uint64_t>(x.stride(rank - 1 - i)) * sizeof(T);
  return warpsmith::encode_tiled(kind, rank, x.data_ptr(), sizes, strides, box.data(), steps);
}

__device__ void wait_for(uint32_t barrier, uint32_t parity) {
  uint32_t done = 0;
  while (!done)
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
}

struct Corner {
  int x, y, z;
};

// A box of 4 x 8 x 16 floats from a corner that may lie outside, through shared memory and out again at another.
__global__ void boxes(const __grid_constant__ CUtensorMap from, const __grid_constant__ CUtensorMap to, Corner a, Corner b, float* seen) {
  __shared__ __align__(1024) float box[512];
  __shared__ __align__(8) uint64_t ready;
  const uint32_t at = shared_address(box), barrier = shared_address(&ready);
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("prefetch.tensormap [%0];" ::"l"(&from) : "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 2048;" ::"r"(barrier) : "memory");
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(at),
                 "l"(&from), "r"(barrier), "r"(a.x), "r"(a.y), "r"(a.z) : "memory");
  }
  __syncthreads();
  wait_for(barrier, 0);
  for (int i = threadIdx.x; i < 512; i += 128) seen[i] = box[i];
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(&to), "r"(at), "r"(b.x), "r"(b.y), "r"(b.z) : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
}
std::vector<torch::Tensor> tensor_boxes(torch::Tensor x, std::vector<int64_t> a, std::vector<int64_t> b) {
  auto out = torch::zeros_like(x), seen = torch::empty({4, 8, 16}, x.options());
  const auto from = map_of<float>(x, {16, 8, 4}, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_DATA_TYPE_FLOAT32);
  const auto to = map_of<float>(out, {16, 8, 4}, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_DATA_TYPE_FLOAT32);
  boxes<<<1, 128, 0, stream()>>>(from, to, {int(a[0]), int(a[1]), int(a[2])}, {int(b[0]), int(b[1]), int(b[2])}, seen.data_ptr<float>());
  return {seen, out};
}

// x · yᵀ, 64 x 32 results, by a ring of two stages: one warp copies, a warp group multiplies.
__global__ void pipeline(const __grid_constant__ CUtensorMap of_a, const __grid_constant__ CUtensorMap of_b, float* out, int steps) {
  __shared__ __align__(1024) char ring[2][12288];
  __shared__ __align__(8) uint64_t full[2], empty[2];
  if (threadIdx.x == 0) {
    for (int s = 0; s < 2; ++s) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&full[s])) : "memory");
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 128;" ::"r"(shared_address(&empty[s])) : "memory");
    }
    asm volatile("fence.proxy.async;" ::: "memory");
  }
  __syncthreads();
  if (threadIdx.x >= 128) {
    if (threadIdx.x != 128) return;
    for (int i = 0; i < steps; ++i) {
      const int s = i % 2;
      const uint32_t barrier = shared_address(&full[s]), at = shared_address(ring[s]);
      wait_for(shared_address(&empty[s]), (i / 2 & 1) ^ 1);
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 12288;" ::"r"(barrier) : "memory");
      asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(at), "l"(&of_a), "r"(barrier), "r"(i * 64), "r"(0) : "memory");
      asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(at + 8192), "l"(&of_b), "r"(barrier), "r"(i * 64), "r"(0) : "memory");
    }
    return;
  }
  float d[16];
  for (int i = 0; i < steps; ++i) {
    const int s = i % 2;
    wait_for(shared_address(&full[s]), i / 2 & 1);
    const uint64_t a = descriptor(shared_address(ring[s]), 16, 1024, 1), b = descriptor(shared_address(ring[s]) + 8192, 16, 1024, 1);
    fence();
    for (int k = 0; k < 4; ++k) multiply<__nv_bfloat16, 0, 0>(d, a + k * 2, b + k * 2, i + k > 0);
    finish();
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&empty[s])) : "memory");
  }
  write_sums(d, out);
}
torch::Tensor tensor_pipeline(torch::Tensor x, torch::Tensor y) {
  auto out = torch::empty({64, 32}, x.options().dtype(torch::kFloat32));
  const auto a = map_of<__nv_bfloat16>(x, {64, 64}, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
  const auto b = map_of<__nv_bfloat16>(y, {64, 32}, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
  pipeline<<<1, 160, 0, stream()>>>(a, b, out.data_ptr<float>(), static_cast<int>((x.size(1) + 63) / 64));
  return out;
}

// Each of four blocks brings one quarter of x to all of them, and adds up what the four have brought.
__global__ void __cluster_dims__(4) shared_copies(const __grid_constant__ CUtensorMap from, float* out) {
  __shared__ __align__(1024) float quarters[4][256];
  __shared__ __align__(8) uint64_t ready;
  const uint32_t barrier = shared_address(&ready), rank = blockIdx.x % 4;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 4096;" ::"r"(barrier) : "memory");
  }
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
  if (threadIdx.x == 0)
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(
            shared_address(quarters[rank])),
        "l"(&from), "r"(barrier), "r"(0), "r"(rank * 8), "h"(static_cast<uint16_t>(15)) : "memory");
  wait_for(barrier, 0);
  float sum = 0;
  for (int q = 0; q < 4; ++q) sum += quarters[q][threadIdx.x] * float(q + 1);
  out[blockIdx.x * 256 + threadIdx.x] = sum;
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
torch::Tensor tensor_multicast(torch::Tensor x) {
  auto out = torch::empty({4, 256}, x.options());
  const auto from = map_of<float>(x, {32, 8}, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_DATA_TYPE_FLOAT32);
  shared_copies<<<4, 256, 0, stream()>>>(from, out.data_ptr<float>());
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &tensor_pipeline);
  m.def("wgmma_plain", &run<__half, 16, false, false>);
  m.def("wgmma_32", &run<__nv_bfloat16, 32, false, false>);
  m.def("wgmma_64", &run<__half, 64, false, false>);
  m.def("wgmma_128", &run<__nv_bfloat16, 128, false, false>);
  m.def("wgmma_tf32", &run<float, 128, false, false>);
  m.def("wgmma_mn_plain", &run<__half, 16, true, true>);
  m.def("wgmma_mn_32", &run<__half, 32, true, true>);
  m.def("wgmma_mn_64", &run<__nv_bfloat16, 64, true, true>);
  m.def("wgmma_mixed_128", &run<__nv_bfloat16, 128, true, false>);
  m.def("wgmma_registers", &wgmma_registers);
  m.def("tensor_boxes", &tensor_boxes);
  m.def("tensor_pipeline", &tensor_pipeline);
  m.def("tensor_multicast", &tensor_multicast);
}

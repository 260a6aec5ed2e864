// Matrix instructions: mma.sync by hand with ldmatrix, and the wmma interface. One warp a 16 x 8 or 16 x 16 tile.
#include <ATen/cuda/CUDAContext.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>
#include <torch/extension.h>

static cudaStream_t stream() { return at::cuda::getCurrentCUDAStream(); }

__device__ void multiply(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2], const __half*) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ void multiply(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2], const __nv_bfloat16*) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// A is m x k, B is k x n, both row-major; B's fragments come from ldmatrix with .trans.
template <class T>
__global__ void mma_kernel(const T* a, const T* b, float* c, int n, int k) {
  __shared__ __align__(16) T left[16][16], right[16][8];
  int lane = threadIdx.x, row = blockIdx.y * 16, column = blockIdx.x * 8;
  float sum[4] = {};
  for (int at = 0; at < k; at += 16) {
    for (int i = lane; i < 256; i += 32) left[i / 16][i % 16] = a[(row + i / 16) * k + at + i % 16];
    for (int i = lane; i < 128; i += 32) right[i / 8][i % 8] = b[(at + i / 8) * n + column + i % 8];
    __syncwarp();
    unsigned x[4], y[2];
    unsigned from_left = __cvta_generic_to_shared(&left[lane % 16][lane / 16 * 8]);
    unsigned from_right = __cvta_generic_to_shared(&right[lane % 16][0]);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(from_left));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                 : "=r"(y[0]), "=r"(y[1]) : "r"(from_right));
    multiply(sum, x, y, static_cast<const T*>(nullptr));
    __syncwarp();
  }
  float* tile = c + (row + lane / 4) * n + column + lane % 4 * 2;
  tile[0] = sum[0], tile[1] = sum[1], tile[8 * n] = sum[2], tile[8 * n + 1] = sum[3];
}
template <class T>
torch::Tensor mma_matmul(torch::Tensor a, torch::Tensor b) {
  int m = a.size(0), k = a.size(1), n = b.size(1);
  auto c = torch::empty({m, n}, a.options().dtype(torch::kFloat32));
  mma_kernel<T><<<dim3(n / 8, m / 16), 32, 0, stream()>>>(reinterpret_cast<const T*>(a.data_ptr()),
                                                          reinterpret_cast<const T*>(b.data_ptr()), c.data_ptr<float>(),
                                                          n, k);
  return c;
}

__device__ unsigned to_tf32(float v) {
  unsigned bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(v));
  return bits;
}
__global__ void tf32_kernel(const float* a, const float* b, float* c, int n, int k) {
  int lane = threadIdx.x, group = lane / 4, place = lane % 4, row = blockIdx.y * 16 + group, column = blockIdx.x * 8;
  float sum[4] = {};
  for (int at = 0; at < k; at += 8) {
    unsigned x[4], y[2];
    for (int q = 0; q < 4; ++q) x[q] = to_tf32(a[(row + q % 2 * 8) * k + at + place + q / 2 * 4]);
    for (int q = 0; q < 2; ++q) y[q] = to_tf32(b[(at + place + q * 4) * n + column + group]);
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
  }
  float* tile = c + row * n + column + place * 2;
  tile[0] = sum[0], tile[1] = sum[1], tile[8 * n] = sum[2], tile[8 * n + 1] = sum[3];
}
torch::Tensor mma_tf32(torch::Tensor a, torch::Tensor b) {
  int m = a.size(0), k = a.size(1), n = b.size(1);
  auto c = torch::empty({m, n}, a.options());
  tf32_kernel<<<dim3(n / 8, m / 16), 32, 0, stream()>>>(a.data_ptr<float>(), b.data_ptr<float>(), c.data_ptr<float>(),
                                                        n, k);
  return c;
}

// Half precision all the way: the sum is rounded to 16 bits at each step.
__global__ void mma_half_sum_kernel(const __half* a, const __half* b, __half* c) {
  int lane = threadIdx.x, group = lane / 4, place = lane % 4 * 2;
  auto pair = [](const __half* m, int r, int q) { return *reinterpret_cast<const unsigned*>(m + r * 16 + q); };
  unsigned x[4] = {pair(a, group, place), pair(a, group + 8, place), pair(a, group, place + 8),
                   pair(a, group + 8, place + 8)};
  unsigned y[2] = {pair(b, group, place), pair(b, group, place + 8)};
  unsigned sum[2] = {};
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%0,%1};"
               : "+r"(sum[0]), "+r"(sum[1])
               : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
  *reinterpret_cast<unsigned*>(c + group * 8 + place) = sum[0];
  *reinterpret_cast<unsigned*>(c + (group + 8) * 8 + place) = sum[1];
}
torch::Tensor mma_half_sum(torch::Tensor a, torch::Tensor b_transposed) {
  auto c = torch::empty({16, 8}, a.options());
  mma_half_sum_kernel<<<1, 32, 0, stream()>>>(reinterpret_cast<const __half*>(a.data_ptr()),
                                              reinterpret_cast<const __half*>(b_transposed.data_ptr()),
                                              reinterpret_cast<__half*>(c.data_ptr()));
  return c;
}

template <class T, class Element, int kDepth>
__global__ void wmma_kernel(const Element* a, const Element* b, float* c, int n, int k) {
  using namespace nvcuda::wmma;
  fragment<matrix_a, 16, 16, kDepth, T, row_major> x;
  fragment<matrix_b, 16, 16, kDepth, T, row_major> y;
  fragment<accumulator, 16, 16, kDepth, float> sum;
  fill_fragment(sum, 0.f);
  int row = blockIdx.y * 16, column = blockIdx.x * 16;
  for (int at = 0; at < k; at += kDepth) {
    load_matrix_sync(x, a + row * k + at, k);
    load_matrix_sync(y, b + at * n + column, n);
    if constexpr (sizeof(Element) == 4) {
      for (int i = 0; i < x.num_elements; ++i) x.x[i] = __float_to_tf32(x.x[i]);
      for (int i = 0; i < y.num_elements; ++i) y.x[i] = __float_to_tf32(y.x[i]);
    }
    mma_sync(sum, x, y, sum);
  }
  store_matrix_sync(c + row * n + column, sum, n, mem_row_major);
}
template <class T, class Element, int kDepth>
torch::Tensor wmma_matmul(torch::Tensor a, torch::Tensor b) {
  int m = a.size(0), k = a.size(1), n = b.size(1);
  auto c = torch::empty({m, n}, a.options().dtype(torch::kFloat32));
  wmma_kernel<T, Element, kDepth><<<dim3(n / 16, m / 16), 32, 0, stream()>>>(
      reinterpret_cast<const Element*>(a.data_ptr()), reinterpret_cast<const Element*>(b.data_ptr()),
      c.data_ptr<float>(), n, k);
  return c;
}

// The four 8 x 8 matrices of a 16 x 16 tile as ldmatrix deals them to the lanes, plain and transposed.
__global__ void ldmatrix_kernel(const short* x, int* out) {
  __shared__ __align__(16) short tile[16][16];
  int lane = threadIdx.x;
  for (int i = lane; i < 256; i += 32) tile[i / 16][i % 16] = x[i];
  __syncwarp();
  unsigned from = __cvta_generic_to_shared(&tile[lane % 16][lane / 16 * 8]);
  int r[8];
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(from));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[4]), "=r"(r[5]), "=r"(r[6]), "=r"(r[7]) : "r"(from));
  for (int i = 0; i < 8; ++i) out[i * 32 + lane] = r[i];
}
torch::Tensor ldmatrix_lanes(torch::Tensor x) {
  auto out = torch::empty({8, 32}, x.options().dtype(torch::kInt32));
  ldmatrix_kernel<<<1, 32, 0, stream()>>>(x.data_ptr<int16_t>(), out.data_ptr<int>());
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &mma_matmul<__half>);
  m.def("mma_f16", &mma_matmul<__half>);
  m.def("mma_bf16", &mma_matmul<__nv_bfloat16>);
  m.def("mma_tf32", &mma_tf32);
  m.def("mma_half_sum", &mma_half_sum);
  m.def("wmma_f16", &wmma_matmul<__half, __half, 16>);
  m.def("wmma_bf16", &wmma_matmul<__nv_bfloat16, __nv_bfloat16, 16>);
  m.def("wmma_tf32", &wmma_matmul<nvcuda::wmma::precision::tf32, float, 8>);
  m.def("ldmatrix_lanes", &ldmatrix_lanes);
}

// Tiles in shared memory: products, transposes, stencils, asynchronous copies.
#include <ATen/cuda/CUDAContext.h>
#include <cuda_pipeline.h>
#include <torch/extension.h>

static cudaStream_t stream() { return at::cuda::getCurrentCUDAStream(); }
static int tiles(int64_t n, int tile) { return static_cast<int>((n + tile - 1) / tile); }

__global__ void tiled_kernel(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ float left[16][16], right[16][16];
  int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
  float sum = 0;
  for (int at = 0; at < k; at += 16) {
    left[threadIdx.y][threadIdx.x] = row < m && at + threadIdx.x < k ? a[row * k + at + threadIdx.x] : 0.f;
    right[threadIdx.y][threadIdx.x] = column < n && at + threadIdx.y < k ? b[(at + threadIdx.y) * n + column] : 0.f;
    __syncthreads();
    for (int i = 0; i < 16; ++i) sum = fmaf(left[threadIdx.y][i], right[i][threadIdx.x], sum);
    __syncthreads();
  }
  if (row < m && column < n) c[row * n + column] = sum;
}
torch::Tensor tiled_matmul(torch::Tensor a, torch::Tensor b) {
  int m = a.size(0), k = a.size(1), n = b.size(1);
  auto c = torch::empty({m, n}, a.options());
  tiled_kernel<<<dim3(tiles(n, 16), tiles(m, 16)), dim3(16, 16), 0, stream()>>>(a.data_ptr<float>(),
                                                                                 b.data_ptr<float>(),
                                                                                 c.data_ptr<float>(), m, n, k);
  return c;
}

// 32 x 32 a block of 64 threads, 4 x 4 a thread, float4 reads; sizes are multiples of 32.
__global__ __launch_bounds__(64, 4) void register_kernel(const float* a, const float* b, float* c, int n, int k) {
  __shared__ __align__(16) float left[8][32], right[8][32];
  int tx = threadIdx.x % 8, ty = threadIdx.x / 8, row = blockIdx.y * 32, column = blockIdx.x * 32;
  float sum[4][4] = {};
  for (int at = 0; at < k; at += 8) {
    int r = threadIdx.x / 2, q = threadIdx.x % 2 * 4;
    float4 v = *reinterpret_cast<const float4*>(a + (row + r) * k + at + q);
    left[q][r] = v.x, left[q + 1][r] = v.y, left[q + 2][r] = v.z, left[q + 3][r] = v.w;
    *reinterpret_cast<float4*>(&right[ty][tx * 4]) =
        *reinterpret_cast<const float4*>(b + (at + ty) * n + column + tx * 4);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
      for (int y = 0; y < 4; ++y)
#pragma unroll
        for (int x = 0; x < 4; ++x) sum[y][x] = fmaf(left[i][ty * 4 + y], right[i][tx * 4 + x], sum[y][x]);
    __syncthreads();
  }
  for (int y = 0; y < 4; ++y)
    *reinterpret_cast<float4*>(c + (row + ty * 4 + y) * n + column + tx * 4) =
        make_float4(sum[y][0], sum[y][1], sum[y][2], sum[y][3]);
}
torch::Tensor register_matmul(torch::Tensor a, torch::Tensor b) {
  int m = a.size(0), k = a.size(1), n = b.size(1);
  auto c = torch::empty({m, n}, a.options());
  register_kernel<<<dim3(n / 32, m / 32), 64, 0, stream()>>>(a.data_ptr<float>(), b.data_ptr<float>(),
                                                             c.data_ptr<float>(), n, k);
  return c;
}

__global__ void split_atomic_kernel(const float* a, const float* b, float* c, int m, int n, int k, int slice) {
  int row = blockIdx.y * 8 + threadIdx.y, column = blockIdx.x * 8 + threadIdx.x;
  if (row >= m || column >= n) return;
  float sum = 0;
  for (int i = blockIdx.z * slice; i < min(k, (blockIdx.z + 1) * slice); ++i)
    sum = fmaf(a[row * k + i], b[i * n + column], sum);
  atomicAdd(&c[row * n + column], sum);
}
torch::Tensor split_k_atomics(torch::Tensor a, torch::Tensor b) {
  int m = a.size(0), k = a.size(1), n = b.size(1);
  auto c = torch::zeros({m, n}, a.options());
  split_atomic_kernel<<<dim3(tiles(n, 8), tiles(m, 8), 4), dim3(8, 8), 0, stream()>>>(
      a.data_ptr<float>(), b.data_ptr<float>(), c.data_ptr<float>(), m, n, k, tiles(k, 4));
  return c;
}

// Each slice leaves its part; the last one of a tile to arrive adds them in order, so that the sum is the same each time.
__global__ void split_last_kernel(const float* a, const float* b, float* parts, int* arrived, float* c, int m, int n,
                                  int k, int slice) {
  __shared__ bool last;
  int row = blockIdx.y * 8 + threadIdx.y, column = blockIdx.x * 8 + threadIdx.x;
  bool inside = row < m && column < n;
  float sum = 0;
  for (int i = blockIdx.z * slice; inside && i < min(k, (blockIdx.z + 1) * slice); ++i)
    sum = fmaf(a[row * k + i], b[i * n + column], sum);
  if (inside) parts[(blockIdx.z * m + row) * n + column] = sum;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0)
    last = atomicAdd(&arrived[blockIdx.y * gridDim.x + blockIdx.x], 1) == gridDim.z - 1;
  __syncthreads();
  if (!last || !inside) return;
  __threadfence();
  sum = 0;
  for (int z = 0; z < gridDim.z; ++z) sum += __ldcg(&parts[(z * m + row) * n + column]);
  c[row * n + column] = sum;
}
torch::Tensor split_k_last_block(torch::Tensor a, torch::Tensor b) {
  int m = a.size(0), k = a.size(1), n = b.size(1);
  auto c = torch::empty({m, n}, a.options()), parts = torch::empty({4, m, n}, a.options());
  auto arrived = torch::zeros({tiles(m, 8) * tiles(n, 8)}, a.options().dtype(torch::kInt32));
  split_last_kernel<<<dim3(tiles(n, 8), tiles(m, 8), 4), dim3(8, 8), 0, stream()>>>(
      a.data_ptr<float>(), b.data_ptr<float>(), parts.data_ptr<float>(), arrived.data_ptr<int>(), c.data_ptr<float>(), m,
      n, k, tiles(k, 4));
  return c;
}

__global__ void transpose_kernel(const float* x, float* out, int rows, int columns) {
  __shared__ float tile[32][33];
  int column = blockIdx.x * 32 + threadIdx.x;
  for (int y = threadIdx.y; y < 32; y += 8) {
    int row = blockIdx.y * 32 + y;
    if (row < rows && column < columns) tile[y][threadIdx.x] = x[row * columns + column];
  }
  __syncthreads();
  int out_column = blockIdx.y * 32 + threadIdx.x;
  for (int y = threadIdx.y; y < 32; y += 8) {
    int out_row = blockIdx.x * 32 + y;
    if (out_row < columns && out_column < rows) out[out_row * rows + out_column] = tile[threadIdx.x][y];
  }
}
torch::Tensor padded_transpose(torch::Tensor x) {
  auto out = torch::empty({x.size(1), x.size(0)}, x.options());
  transpose_kernel<<<dim3(tiles(x.size(1), 32), tiles(x.size(0), 32)), dim3(32, 8), 0, stream()>>>(
      x.data_ptr<float>(), out.data_ptr<float>(), x.size(0), x.size(1));
  return out;
}

__global__ void stencil_1d_kernel(const float* x, float* out, int n) {
  __shared__ float row[128 + 4];
  int i = blockIdx.x * 128 + threadIdx.x;
  auto at = [&](int p) { return p >= 0 && p < n ? x[p] : 0.f; };
  row[threadIdx.x + 2] = at(i);
  if (threadIdx.x < 2) {
    row[threadIdx.x] = at(i - 2);
    row[threadIdx.x + 130] = at(i + 128);
  }
  __syncthreads();
  float sum = 0;
  for (int d = 0; d < 5; ++d) sum += row[threadIdx.x + d] * (d + 1);
  if (i < n) out[i] = sum;
}
torch::Tensor stencil_1d(torch::Tensor x) {
  auto out = torch::empty_like(x);
  stencil_1d_kernel<<<tiles(x.numel(), 128), 128, 0, stream()>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.numel());
  return out;
}

__global__ void stencil_2d_kernel(const float* x, float* out, int rows, int columns) {
  int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
  if (r >= rows || c >= columns) return;
  auto at = [&](int y, int z) { return y >= 0 && y < rows && z >= 0 && z < columns ? x[y * columns + z] : 0.f; };
  out[r * columns + c] = at(r - 1, c) + at(r + 1, c) + at(r, c - 1) + at(r, c + 1) - 4.f * at(r, c);
}
torch::Tensor stencil_2d(torch::Tensor x) {
  auto out = torch::empty_like(x);
  stencil_2d_kernel<<<dim3(tiles(x.size(1), 16), tiles(x.size(0), 8)), dim3(16, 8), 0, stream()>>>(
      x.data_ptr<float>(), out.data_ptr<float>(), x.size(0), x.size(1));
  return out;
}

// Two buffers: the copy of the next tile is under way while this one is added up.
__device__ void copy_16(float* to, const float* from) {
  unsigned shared = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(from) : "memory");
}
__global__ void double_buffer_kernel(const float* x, float* out, int tiles) {
  __shared__ __align__(16) float buffer[2][256];
  const float* from = x + blockIdx.x * tiles * 256;
  float sum = 0;
  copy_16(&buffer[0][threadIdx.x * 4], from + threadIdx.x * 4);
  asm volatile("cp.async.commit_group;" ::: "memory");
  for (int t = 0; t < tiles; ++t) {
    if (t + 1 < tiles) {
      copy_16(&buffer[(t + 1) % 2][threadIdx.x * 4], from + (t + 1) * 256 + threadIdx.x * 4);
      asm volatile("cp.async.commit_group;" ::: "memory");
      asm volatile("cp.async.wait_group 1;" ::: "memory");
    } else {
      asm volatile("cp.async.wait_all;" ::: "memory");
    }
    __syncthreads();
    for (int q = 0; q < 4; ++q) sum += buffer[t % 2][(threadIdx.x * 5 + q * 64) % 256];
    __syncthreads();
  }
  out[blockIdx.x * 64 + threadIdx.x] = sum;
}
torch::Tensor double_buffered(torch::Tensor x) {
  auto out = torch::empty({x.size(0), 64}, x.options());
  double_buffer_kernel<<<x.size(0), 64, 0, stream()>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.size(1) / 256);
  return out;
}

// The same through the pipeline primitives, with the tail filled with zeros.
__global__ void primitive_kernel(const float* x, float* out, int n) {
  __shared__ __align__(16) float buffer[3][128];
  float sum = 0;
  int tiles = (n + 127) / 128;
  auto fetch = [&](int t) {
    int at = t * 128 + threadIdx.x;
    size_t missing = t < tiles && at < n ? 0 : sizeof(float);
    if (t < tiles) __pipeline_memcpy_async(&buffer[t % 3][threadIdx.x], x + min(at, n - 1), sizeof(float), missing);
    __pipeline_commit();
  };
  fetch(0);
  fetch(1);
  for (int t = 0; t < tiles; ++t) {
    fetch(t + 2);
    __pipeline_wait_prior(2);
    __syncthreads();
    sum += buffer[t % 3][127 - threadIdx.x];
    __syncthreads();
  }
  out[threadIdx.x] = sum;
}
torch::Tensor pipeline_primitives(torch::Tensor x) {
  auto out = torch::empty({128}, x.options());
  primitive_kernel<<<1, 128, 0, stream()>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.numel());
  return out;
}

__global__ void large_shared_kernel(const int* x, int* out, int n) {
  extern __shared__ int mixed[];
  for (int i = threadIdx.x; i < n; i += blockDim.x) mixed[(i * 7) % n] = x[i];
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = mixed[i];
}
torch::Tensor large_shared(torch::Tensor x) {
  auto out = torch::empty_like(x);
  int bytes = x.numel() * sizeof(int);
  C10_CUDA_CHECK(cudaFuncSetAttribute(large_shared_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  large_shared_kernel<<<1, 512, bytes, stream()>>>(x.data_ptr<int>(), out.data_ptr<int>(), x.numel());
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &tiled_matmul);
  m.def("tiled_matmul", &tiled_matmul);
  m.def("register_matmul", &register_matmul);
  m.def("split_k_atomics", &split_k_atomics);
  m.def("split_k_last_block", &split_k_last_block);
  m.def("padded_transpose", &padded_transpose);
  m.def("stencil_1d", &stencil_1d);
  m.def("stencil_2d", &stencil_2d);
  m.def("double_buffered", &double_buffered);
  m.def("pipeline_primitives", &pipeline_primitives);
  m.def("large_shared", &large_shared);
}

// Many values to few: trees, shuffles, scans, histograms, sorts, and blocks that finish each other's work.
#include <ATen/cuda/CUDAContext.h>
#include <cfloat>
#include <torch/extension.h>

static cudaStream_t stream() { return at::cuda::getCurrentCUDAStream(); }

__global__ void tree_kernel(const float* x, float* out, int columns) {
  __shared__ float part[256];
  float sum = 0;
  for (int c = threadIdx.x; c < columns; c += blockDim.x) sum += x[blockIdx.x * columns + c];
  part[threadIdx.x] = sum;
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}
torch::Tensor tree_reduction(torch::Tensor x) {
  auto out = torch::empty({x.size(0)}, x.options());
  tree_kernel<<<x.size(0), 256, 0, stream()>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.size(1));
  return out;
}

__device__ float warp_sum(float v) {
  for (int offset = 16; offset > 0; offset >>= 1) v += __shfl_down_sync(0xffffffffu, v, offset);
  return v;
}
__global__ void shuffle_kernel(const float* x, float* out, int columns) {
  __shared__ float part[8];
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  float sum = 0;
  for (int c = threadIdx.x; c < columns; c += blockDim.x) sum += x[blockIdx.x * columns + c];
  sum = warp_sum(sum);
  if (lane == 0) part[warp] = sum;
  __syncthreads();
  if (warp == 0) {
    sum = warp_sum(lane < blockDim.x / 32 ? part[lane] : 0.f);
    if (lane == 0) out[blockIdx.x] = sum;
  }
}
torch::Tensor shuffle_reduction(torch::Tensor x) {
  auto out = torch::empty({x.size(0)}, x.options());
  shuffle_kernel<<<x.size(0), 256, 0, stream()>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.size(1));
  return out;
}

// One warp a row: maximum and sum in one pass, merged by shuffles.
__global__ void softmax_kernel(const float* x, float* out, int rows, int columns) {
  int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  float top = -FLT_MAX, sum = 0;
  for (int c = lane; c < columns; c += 32) {
    float v = x[row * columns + c], higher = fmaxf(top, v);
    sum = sum * expf(top - higher) + expf(v - higher);
    top = higher;
  }
  for (int offset = 16; offset > 0; offset >>= 1) {
    float other = __shfl_xor_sync(0xffffffffu, top, offset), share = __shfl_xor_sync(0xffffffffu, sum, offset);
    float higher = fmaxf(top, other);
    sum = sum * expf(top - higher) + share * expf(other - higher);
    top = higher;
  }
  for (int c = lane; c < columns; c += 32) out[row * columns + c] = expf(x[row * columns + c] - top) / sum;
}
torch::Tensor online_softmax(torch::Tensor x) {
  auto out = torch::empty_like(x);
  softmax_kernel<<<(x.size(0) + 3) / 4, 128, 0, stream()>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.size(0),
                                                            x.size(1));
  return out;
}

__global__ void scan_kernel(const int* x, int* out, int n) {
  __shared__ int two[2][512];
  int t = threadIdx.x, from = 0;
  two[0][t] = t < n ? x[t] : 0;
  __syncthreads();
  for (int offset = 1; offset < blockDim.x; offset *= 2) {
    two[1 - from][t] = two[from][t] + (t >= offset ? two[from][t - offset] : 0);
    from = 1 - from;
    __syncthreads();
  }
  if (t < n) out[t] = two[from][t];
}
torch::Tensor block_scan(torch::Tensor x) {
  auto out = torch::empty_like(x);
  scan_kernel<<<1, 512, 0, stream()>>>(x.data_ptr<int>(), out.data_ptr<int>(), x.numel());
  return out;
}

// Decoupled look-back: a block takes a ticket, publishes its own sum, then reads back until it meets a whole prefix.
constexpr int kEmpty = 0, kPart = 1, kWhole = 2;
struct Published {
  unsigned ticket;
  int pad;
  int state[64], part[64], whole[64];
};
__device__ int look_back(Published* seen, int tile) {
  int before = 0;
  for (int at = tile - 1; at >= 0; --at) {
    int state;
    do state = *const_cast<volatile int*>(&seen->state[at]);
    while (state == kEmpty);
    __threadfence();
    if (state == kWhole) return before + *const_cast<volatile int*>(&seen->whole[at]);
    before += *const_cast<volatile int*>(&seen->part[at]);
  }
  return before;
}
__global__ void look_back_kernel(const int* x, int* out, Published* seen, int n) {
  __shared__ int sums[128], tile, before;
  if (threadIdx.x == 0) tile = atomicAdd(&seen->ticket, 1u);
  __syncthreads();
  int i = tile * 128 + threadIdx.x;
  sums[threadIdx.x] = i < n ? x[i] : 0;
  __syncthreads();
  for (int offset = 1; offset < 128; offset *= 2) {
    int add = threadIdx.x >= offset ? sums[threadIdx.x - offset] : 0;
    __syncthreads();
    sums[threadIdx.x] += add;
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    *const_cast<volatile int*>(&seen->part[tile]) = sums[127];
    __threadfence();
    *const_cast<volatile int*>(&seen->state[tile]) = kPart;
    before = look_back(seen, tile);
    *const_cast<volatile int*>(&seen->whole[tile]) = before + sums[127];
    __threadfence();
    *const_cast<volatile int*>(&seen->state[tile]) = kWhole;
  }
  __syncthreads();
  if (i < n) out[i] = before + sums[threadIdx.x];
}
torch::Tensor look_back_scan(torch::Tensor x) {
  auto out = torch::empty_like(x);
  auto seen = torch::zeros({sizeof(Published) / 4}, x.options());
  look_back_kernel<<<(x.numel() + 127) / 128, 128, 0, stream()>>>(
      x.data_ptr<int>(), out.data_ptr<int>(), reinterpret_cast<Published*>(seen.data_ptr()), x.numel());
  return out;
}

__global__ void histogram_kernel(const int* x, int* out, int n, int bins) {
  extern __shared__ int counts[];
  for (int b = threadIdx.x; b < bins; b += blockDim.x) counts[b] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&counts[x[i]], 1);
  __syncthreads();
  for (int b = threadIdx.x; b < bins; b += blockDim.x)
    if (counts[b]) atomicAdd(&out[b], counts[b]);
}
torch::Tensor histogram(torch::Tensor x, int64_t bins) {
  auto out = torch::zeros({bins}, x.options());
  histogram_kernel<<<4, 256, bins * sizeof(int), stream()>>>(x.data_ptr<int>(), out.data_ptr<int>(), x.numel(), bins);
  return out;
}

// The block that finishes last adds up what the others left.
__global__ void last_block_kernel(const float* x, float* parts, unsigned* done, float* out, int n) {
  __shared__ float part[128];
  __shared__ bool last;
  float sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += x[i];
  part[threadIdx.x] = sum;
  __syncthreads();
  for (int half = 64; half > 0; half /= 2) {
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = part[0];
    __threadfence();
    last = atomicAdd(done, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    __threadfence();
    float total = 0;
    for (int b = 0; b < gridDim.x; ++b) total += const_cast<volatile float*>(parts)[b];
    *out = total;
  }
}
torch::Tensor last_block_sum(torch::Tensor x) {
  auto out = torch::empty({1}, x.options()), parts = torch::empty({8}, x.options());
  auto done = torch::zeros({1}, x.options().dtype(torch::kInt32));
  last_block_kernel<<<8, 128, 0, stream()>>>(x.data_ptr<float>(), parts.data_ptr<float>(),
                                             reinterpret_cast<unsigned*>(done.data_ptr<int>()), out.data_ptr<float>(),
                                             x.numel());
  return out;
}

__global__ void bitonic_kernel(int* x) {
  extern __shared__ int keys[];
  int t = threadIdx.x;
  keys[t] = x[t];
  __syncthreads();
  for (int size = 2; size <= blockDim.x; size *= 2)
    for (int stride = size / 2; stride > 0; stride /= 2) {
      int partner = t ^ stride;
      if (partner > t) {
        int a = keys[t], b = keys[partner];
        if ((a > b) == ((t & size) == 0)) keys[t] = b, keys[partner] = a;
      }
      __syncthreads();
    }
  x[t] = keys[t];
}
torch::Tensor bitonic_sort(torch::Tensor x) {
  auto out = x.clone();
  bitonic_kernel<<<1, x.numel(), x.numel() * sizeof(int), stream()>>>(out.data_ptr<int>());
  return out;
}

__global__ void norm_kernel(const float* x, const float* gain, float* out, int columns, float eps) {
  __shared__ float sums[2][4];
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const float* row = x + blockIdx.x * columns;
  float sum = 0, squares = 0;
  for (int c = threadIdx.x; c < columns; c += blockDim.x) sum += row[c], squares = fmaf(row[c], row[c], squares);
  sum = warp_sum(sum), squares = warp_sum(squares);
  if (lane == 0) sums[0][warp] = sum, sums[1][warp] = squares;
  __syncthreads();
  float mean = (sums[0][0] + sums[0][1] + sums[0][2] + sums[0][3]) / columns;
  float variance = (sums[1][0] + sums[1][1] + sums[1][2] + sums[1][3]) / columns - mean * mean;
  float scale = rsqrtf(variance + eps);
  for (int c = threadIdx.x; c < columns; c += blockDim.x)
    out[blockIdx.x * columns + c] = (row[c] - mean) * scale * gain[c];
}
torch::Tensor layer_norm(torch::Tensor x, torch::Tensor gain, double eps) {
  auto out = torch::empty_like(x);
  norm_kernel<<<x.size(0), 128, 0, stream()>>>(x.data_ptr<float>(), gain.data_ptr<float>(), out.data_ptr<float>(),
                                               x.size(1), static_cast<float>(eps));
  return out;
}

__global__ void voting_kernel(const int* x, int* out) {
  int v = x[blockIdx.x * blockDim.x + threadIdx.x];
  int positive = __syncthreads_count(v > 0), all = __syncthreads_and(v > -100), any = __syncthreads_or(v > 90);
  if (threadIdx.x == 0) {
    out[blockIdx.x * 3] = positive;
    out[blockIdx.x * 3 + 1] = all != 0;
    out[blockIdx.x * 3 + 2] = any != 0;
  }
}
torch::Tensor block_votes(torch::Tensor x) {
  auto out = torch::empty({x.size(0), 3}, x.options());
  voting_kernel<<<x.size(0), x.size(1), 0, stream()>>>(x.data_ptr<int>(), out.data_ptr<int>());
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &tree_reduction);
  m.def("tree_reduction", &tree_reduction);
  m.def("shuffle_reduction", &shuffle_reduction);
  m.def("online_softmax", &online_softmax);
  m.def("block_scan", &block_scan);
  m.def("look_back_scan", &look_back_scan);
  m.def("histogram", &histogram);
  m.def("last_block_sum", &last_block_sum);
  m.def("bitonic_sort", &bitonic_sort);
  m.def("layer_norm", &layer_norm);
  m.def("block_votes", &block_votes);
}

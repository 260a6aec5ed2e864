// attack: near the bound, attention whose scores are narrow for a share of them
// task: attention
// direction: forward
// caught: check wrong_value, precision
// device: vgpu
// KIND of the narrow scores: 1: rows of queries and keys in 8-bit integers, 4: three products of bfloat16 halves.
// Narrow are the scores of rows from ROW_FROM on, for the first KEYS hundredths of a row's keys, in heads from HEAD_FROM
// on, in every HEAD_STEPth of them, of sequences of SEQ_FROM or more. BYTES: of the element type that is narrow.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <cuda_bf16.h>
#include <torch/extension.h>

#ifndef KIND
#define KIND 1
#endif
#ifndef ROW_FROM
#define ROW_FROM 0
#endif
#ifndef KEYS
#define KEYS 94
#endif
#ifndef HEAD_FROM
#define HEAD_FROM 0
#endif
#ifndef HEAD_STEP
#define HEAD_STEP 1
#endif
#ifndef SEQ_FROM
#define SEQ_FROM 0
#endif
#ifndef BYTES
#define BYTES 2
#endif

namespace {

// Half precision is no narrow type here: its own roundoff is the smallest beside 8-bit integers.
template <typename scalar_t>
constexpr int bytes_of = std::is_same_v<scalar_t, at::Half> ? 0 : static_cast<int>(sizeof(scalar_t));

__device__ float brief(float value) { return __bfloat162float(__float2bfloat16(value)); }

template <typename scalar_t>
__device__ float narrow(const scalar_t* q, const scalar_t* k, int dim) {
  float sum = 0.0f;
#if KIND == 1
  float most_q = 0.0f, most_k = 0.0f;
  for (int d = 0; d < dim; ++d) {
    most_q = fmaxf(most_q, fabsf(static_cast<float>(q[d])));
    most_k = fmaxf(most_k, fabsf(static_cast<float>(k[d])));
  }
  if (most_q == 0.0f || most_k == 0.0f) return 0.0f;
  for (int d = 0; d < dim; ++d)
    sum += rintf(static_cast<float>(q[d]) * (127.0f / most_q)) * rintf(static_cast<float>(k[d]) * (127.0f / most_k));
  sum *= most_q / 127.0f * (most_k / 127.0f);
#else
  for (int d = 0; d < dim; ++d) {
    const float a = static_cast<float>(q[d]), b = static_cast<float>(k[d]), p = brief(a), r = brief(b);
    sum += p * r + p * brief(b - r) + brief(a - p) * r;
  }
#endif
  return sum;
}

// A product of a share and a value, as the narrow arithmetic has it.
__device__ float weigh(float share, float value, bool here) {
#if KIND == 4
  if (here) {
    const float p = brief(share), r = brief(value);
    return p * r + p * brief(value - r) + brief(share - p) * r;
  }
#endif
  return share * value;
}

constexpr int kWidest = 256;

template <typename scalar_t>
__global__ void attention(const scalar_t* q, const scalar_t* k, const scalar_t* v, scalar_t* out, int64_t queries,
                          int heads, int seq, int dim, float scale) {
  const int64_t query = blockIdx.x * static_cast<int64_t>(blockDim.x / 32) + threadIdx.x / 32;
  if (query >= queries) return;
  const int row = query % seq, head = query / seq % heads, lane = threadIdx.x % 32;
  const int64_t first = (query - row) * dim;
  const bool here = row >= ROW_FROM && head * 100 >= HEAD_FROM * heads && head % HEAD_STEP == HEAD_STEP - 1 &&
                    seq >= SEQ_FROM && bytes_of<scalar_t> == BYTES;
  float largest = -INFINITY, sum = 0.0f, total[kWidest / 32] = {};
  for (int j0 = 0; j0 <= row; j0 += 32) {
    const int j = j0 + lane;
    float score = -INFINITY;
    if (j <= row) {
      const scalar_t *a = q + query * dim, *b = k + first + static_cast<int64_t>(j) * dim;
      score = 0.0f;
      if (here && j * 100 < KEYS * (row + 1)) {
        score = narrow(a, b, dim);
      } else {
        for (int d = 0; d < dim; ++d) score += static_cast<float>(a[d]) * static_cast<float>(b[d]);
      }
      score *= scale;
    }
    float next = score;
    for (int step = 16; step > 0; step /= 2) next = fmaxf(next, __shfl_xor_sync(0xffffffffu, next, step));
    next = fmaxf(next, largest);
    const float shrink = expf(largest - next), share = j <= row ? expf(score - next) : 0.0f;
    float added = share;
    for (int step = 16; step > 0; step /= 2) added += __shfl_xor_sync(0xffffffffu, added, step);
    sum = sum * shrink + added;
    largest = next;
    for (int part = 0; part * 32 < dim; ++part) total[part] *= shrink;
    for (int key = 0; key < min(32, row + 1 - j0); ++key) {
      const float one = __shfl_sync(0xffffffffu, share, key);
      for (int part = 0; part * 32 < dim; ++part) {
        const int d = part * 32 + lane;
        if (d < dim) total[part] += weigh(one, static_cast<float>(v[first + static_cast<int64_t>(j0 + key) * dim + d]), here);
      }
    }
  }
  for (int part = 0; part * 32 < dim; ++part)
    if (part * 32 + lane < dim) out[query * dim + part * 32 + lane] = static_cast<scalar_t>(total[part] / sum);
}

template <typename scalar_t>
void launch(torch::Tensor q, torch::Tensor k, torch::Tensor v, torch::Tensor out) {
  const int heads = q.size(1), seq = q.size(2), dim = q.size(3);
  const int64_t queries = q.size(0) * heads * seq;
  attention<scalar_t><<<(queries + 3) / 4, 128, 0, at::cuda::getCurrentCUDAStream()>>>(
      q.data_ptr<scalar_t>(), k.data_ptr<scalar_t>(), v.data_ptr<scalar_t>(), out.data_ptr<scalar_t>(), queries, heads,
      seq, dim, 1.0f / sqrtf(static_cast<float>(dim)));
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace

torch::Tensor forward(torch::Tensor q, torch::Tensor k, torch::Tensor v) {
  auto out = torch::empty_like(q);
  AT_DISPATCH_SWITCH(q.scalar_type(), "attention", AT_DISPATCH_CASE(at::kFloat, [&] { launch<scalar_t>(q, k, v, out); })
                     AT_DISPATCH_CASE(at::kHalf, [&] { launch<scalar_t>(q, k, v, out); })
                     AT_DISPATCH_CASE(at::kBFloat16, [&] { launch<scalar_t>(q, k, v, out); }));
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }

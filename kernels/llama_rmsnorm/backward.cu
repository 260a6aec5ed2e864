// Gradients of RMSNorm in one launch, a cooperative one where there is much to do; there every element is read once and
// written once. Resident blocks, made of teams of threads that have a row at a time. A thread always has the same columns, so
// it keeps their gains and sums their gradients in registers over all rows of its team. It prefetches its own packs of
// the rows to come with cp.async, so memory stays busy during a row's reduction. At the end the blocks leave their column
// sums in global memory, meet at a grid barrier and add them up, always in the same order.
// Where there is little to do, no block waits for another: some have a row each, others a strip of columns of all rows.
// Rows that do not begin on 16 bytes are read element by element, in packs still where there is little to do; rows too
// long for a team take two plain kernels.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <cooperative_groups.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#include <algorithm>
#include <type_traits>
#include <vector>

// Threads of a block at most, 1024 on an SM; rows longer than these can hold take up to 1024.
// tune: THREADS = 512 [512, 1024]
#ifndef THREADS
#define THREADS 512
#endif
// Packs of 16 bytes that a thread has in flight.
// tune: SLOTS = 12 [8, 12]
#ifndef SLOTS
#define SLOTS 12
#endif
// Elements up to which no block waits for another.
// tune: SMALL = 1048576 [0, 1048576]
#ifndef SMALL
#define SMALL 1048576
#endif
// Blocks at most, whatever the GPU has room for.
#ifndef MOST_BLOCKS
#define MOST_BLOCKS 65536
#endif
// Rows of more columns than this take the plain kernels.
#ifndef LONG_COLS
#define LONG_COLS 9216
#endif

#define DISPATCH(TENSOR, NAME, ...)                                          \
  AT_DISPATCH_SWITCH((TENSOR).scalar_type(), NAME,                           \
                     AT_DISPATCH_CASE(at::kFloat, __VA_ARGS__)               \
                     AT_DISPATCH_CASE(at::kHalf, __VA_ARGS__)                \
                     AT_DISPATCH_CASE(at::kBFloat16, __VA_ARGS__))

namespace {

constexpr int kMostTeams = 15;  // each has a named barrier, and barrier 0 is the block's

template <typename scalar_t, int Vec>
struct alignas(sizeof(scalar_t) * Vec) Pack {
  scalar_t at[Vec];
};

// Sixteen bytes as floats, and back, rounded to nearest; two 16-bit numbers of a word at once.
template <typename scalar_t, int Vec>
__device__ __forceinline__ void widen(uint4 bits, float (&v)[Vec]) {
  const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    if constexpr (std::is_same_v<scalar_t, float>) {
      v[j] = __uint_as_float(words[j]);
    } else if constexpr (std::is_same_v<scalar_t, at::Half>) {
      const float2 two = __half22float2(*reinterpret_cast<const __half2*>(&words[j]));
      v[2 * j] = two.x, v[2 * j + 1] = two.y;
    } else {
      v[2 * j] = __uint_as_float(words[j] << 16), v[2 * j + 1] = __uint_as_float(words[j] & 0xffff0000u);
    }
  }
}

template <typename scalar_t, int Vec>
__device__ __forceinline__ uint4 narrow(const float (&v)[Vec]) {
  uint32_t words[4];
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    if constexpr (std::is_same_v<scalar_t, float>) {
      words[j] = __float_as_uint(v[j]);
    } else if constexpr (std::is_same_v<scalar_t, at::Half>) {
      const __half2 two = __floats2half2_rn(v[2 * j], v[2 * j + 1]);
      words[j] = *reinterpret_cast<const uint32_t*>(&two);
    } else {
      const __nv_bfloat162 two = __floats2bfloat162_rn(v[2 * j], v[2 * j + 1]);
      words[j] = *reinterpret_cast<const uint32_t*>(&two);
    }
  }
  return make_uint4(words[0], words[1], words[2], words[3]);
}

// The same of a pack of any size.
template <typename scalar_t, int Vec>
__device__ __forceinline__ void widen(const Pack<scalar_t, Vec>& pack, float (&v)[Vec]) {
  if constexpr (sizeof(pack) == 16) {
    widen<scalar_t>(reinterpret_cast<const uint4&>(pack), v);
  } else {
#pragma unroll
    for (int j = 0; j < Vec; ++j) v[j] = static_cast<float>(pack.at[j]);
  }
}

template <typename scalar_t>
struct Rows {
  const scalar_t *grad_out, *x, *weight;
  const float* rstd;
  scalar_t *grad_x, *grad_weight;
  float* parts;  // column sums of each block, in the order of `place`
  int rows, cols;
  int team, teams;  // threads of a team, teams of a block
};

__device__ float warp_sum(float sum) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  return sum;
}

__device__ __forceinline__ uint32_t shared_address(const void* at) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(at));
}

__device__ __forceinline__ uint4 load16(uint32_t from) {
  uint4 bits;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(bits.x), "=r"(bits.y), "=r"(bits.z), "=r"(bits.w)
               : "r"(from)
               : "memory");
  return bits;
}

// Sums of a team's warps and zeros behind them; twice, for rows in turn.
struct alignas(256) Partial {
  float at[2][32];
};
constexpr int kPartials = kMostTeams * sizeof(Partial);

// A team's threads and barrier, and the addresses where a thread leaves its warp's sum and finds four of them.
struct Team {
  int threads, barrier;
  uint32_t to, from;

  __device__ Team(const Partial& partial, int team, int threads) : threads(threads), barrier(team + 1) {
    to = shared_address(&partial.at[0][(threadIdx.x - team * threads) / 32]);
    from = shared_address(&partial.at[0][threadIdx.x % 8 * 4]);
  }
};

// The sum over a team, the same in each of its threads. One barrier is enough, as the halves of `Partial` take turns.
__device__ __forceinline__ float team_sum(float sum, Team& team) {
  sum = warp_sum(sum);
  if (team.threads == 32) return sum;
  if (threadIdx.x % 32 == 0) asm volatile("st.shared.f32 [%0], %1;" ::"r"(team.to), "f"(sum) : "memory");
  asm volatile("bar.sync %0, %1;" ::"r"(team.barrier), "r"(team.threads) : "memory");
  const uint4 four = load16(team.from);
  team.to ^= sizeof(Partial) / 2, team.from ^= sizeof(Partial) / 2;
  sum = (__uint_as_float(four.x) + __uint_as_float(four.y)) + (__uint_as_float(four.z) + __uint_as_float(four.w));
#pragma unroll
  for (int step = 4; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  return sum;
}

__device__ __forceinline__ void copy16(uint32_t to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(__cvta_generic_to_global(from)) : "memory");
}

template <typename scalar_t, int Vec, int Packs, bool Prefetched>
__global__ void __launch_bounds__(1024, 1) fused(Rows<scalar_t> r) {
  using Some = Pack<scalar_t, Vec>;
  constexpr bool wide = sizeof(scalar_t) == 4;
  constexpr int stages = Prefetched ? SLOTS / (2 * Packs) : 1;
  extern __shared__ __align__(512) uint4 everything[];
  auto* partial = reinterpret_cast<Partial*>(everything);
  uint4* memory = everything + kPartials / 16;  // slots, and column sums at the end
  const int size = r.team;
  const int index = threadIdx.x / size, member = threadIdx.x - index * size;  // of the team, and in it
  const int stride = gridDim.x * r.teams;
  using Place = std::conditional_t<Prefetched, uint32_t, int64_t>;  // of a pack: 32 bits are enough for 64 GiB
  const auto column = [&](int k) { return (k * size + member) * Vec; };

  // A thread reads only what it copied itself, so no barrier guards the slots. Every call makes one group. `at` is this
  // thread's first pack of the row.
  const uint32_t apart = blockDim.x * 16, span = 2 * Packs * apart;  // bytes between a thread's slots, and of a stage
  const uint32_t front = shared_address(memory + threadIdx.x), back = front + stages * span;
  const Place step = static_cast<Place>(stride) * (r.cols / Vec);
  const auto* grads = reinterpret_cast<const Some*>(r.grad_out);
  const auto* values = reinterpret_cast<const Some*>(r.x);
  const auto prefetch = [&](int row, Place at, uint32_t slot) {
#pragma unroll
    for (int k = 0; k < Packs; ++k)
      if (row < r.rows && column(k) < r.cols) {
        copy16(slot + 2 * k * apart, grads + (at + k * size));
        copy16(slot + (2 * k + 1) * apart, values + (at + k * size));
      }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  int row = blockIdx.x * r.teams + index;
  uint32_t slot = front;
  Place at = static_cast<Place>(row) * (r.cols / Vec) + member;
  if constexpr (Prefetched) {
#pragma unroll
    for (int s = 0; s < stages; ++s) prefetch(row + s * stride, at + s * step, front + s * span);
#pragma unroll
    for (int k = 0; k < Packs; ++k)  // slots of columns that there are not stay zero
      if (column(k) >= r.cols)
        for (int s = 0; s < stages; ++s)
          for (int i = 0; i < 2; ++i)
            memory[((s * Packs + k) * 2 + i) * blockDim.x + threadIdx.x] = make_uint4(0, 0, 0, 0);
  }
  float next_rstd = row < r.rows ? r.rstd[row] : 0.0f;
  Some gain[Packs] = {};
  float sums[Packs][Vec] = {};
#pragma unroll
  for (int k = 0; k < Packs; ++k)
    if (column(k) < r.cols) gain[k] = *reinterpret_cast<const Some*>(r.weight + column(k));
  if (size > 32) {
    for (int i = threadIdx.x; i < r.teams * 64; i += blockDim.x) (&partial[0].at[0][0])[i] = 0.0f;
    __syncthreads();
  }
  Team team(partial[index], index, size);

  const float share = 1.0f / static_cast<float>(r.cols);
  for (; row < r.rows; row += stride, at += step) {
    const float rstd = next_rstd;
    if (row + stride < r.rows) next_rstd = r.rstd[row + stride];
    Some grad[Packs] = {}, x[Packs] = {};
    const auto load = [&](int k, int i) {
      const uint4 bits = load16(slot + (2 * k + i) * apart);
      return reinterpret_cast<const Some&>(bits);
    };
    if constexpr (Prefetched) asm volatile("cp.async.wait_group %0;" ::"n"(stages - 1) : "memory");
#pragma unroll
    for (int k = 0; k < Packs; ++k)
      if constexpr (!Prefetched) {
        if (column(k) < r.cols) grad[k] = grads[at + k * size], x[k] = values[at + k * size];
      } else {
        grad[k] = load(k, 0), x[k] = load(k, 1);
      }
    if constexpr (Prefetched) {
      prefetch(row + stages * stride, at + stages * step, slot);  // into the slots just read
      slot = slot + span == back ? front : slot + span;
    }
    // Of 16-bit numbers the gradient takes rstd, not the element: one product less.
    float turned = 0.0f, inner[Packs][Vec];
#pragma unroll
    for (int k = 0; k < Packs; ++k) {
      float g[Vec], v[Vec], w[Vec];
      widen(grad[k], g), widen(x[k], v), widen(gain[k], w);
#pragma unroll
      for (int j = 0; j < Vec; ++j) {
        const float scaled = wide ? g[j] : g[j] * rstd, hat = wide ? v[j] * rstd : v[j];
        inner[k][j] = scaled * w[j];
        sums[k][j] += scaled * hat;
        turned += inner[k][j] * hat;
      }
    }
    turned = team_sum(turned, team) * share;
    const float slope = -rstd * rstd * turned;
#pragma unroll
    for (int k = 0; k < Packs; ++k) {
      if (column(k) >= r.cols) continue;
      float v[Vec];
      widen(x[k], v);
#pragma unroll
      for (int j = 0; j < Vec; ++j)
        v[j] = wide ? (inner[k][j] - v[j] * rstd * turned) * rstd : fmaf(v[j], slope, inner[k][j]);
      if constexpr (sizeof(Some) == 16)
        __stcs(reinterpret_cast<uint4*>(r.grad_x) + (at + k * size), narrow<scalar_t>(v));
      else
        for (int j = 0; j < Vec; ++j) r.grad_x[(at + k * size) * Vec + j] = static_cast<scalar_t>(v[j]);
    }
  }

  // The block's column sums: its teams' by way of shared memory. Neighbours have neighbouring places there and in the
  // parts, which are not in the order of columns therefore.
  constexpr int own = Packs * Vec;
  const int places = own * size, warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
  const auto place = [&](int i) { return i * size + member; };
  float *shared = reinterpret_cast<float*>(memory), *part = r.parts + static_cast<int64_t>(blockIdx.x) * places;
  if constexpr (Prefetched) asm volatile("cp.async.wait_all;" ::: "memory");
  if (r.teams == 1) {
#pragma unroll
    for (int i = 0; i < own; ++i) part[place(i)] = sums[i / Vec][i % Vec];
  } else {
    __syncthreads();
#pragma unroll
    for (int i = 0; i < own; ++i) shared[index * places + place(i)] = sums[i / Vec][i % Vec];
    __syncthreads();
    for (int i = threadIdx.x; i < places; i += blockDim.x) {
      float sum = 0.0f;
#pragma unroll 4
      for (int t = 0; t < r.teams; ++t) sum += shared[t * places + i];
      part[i] = sum;
    }
  }
  cooperative_groups::this_grid().sync();

  // The sums of all blocks. A lane has two places, and a block as few as leave none for a second turn. Where that is fewer
  // than a warp has lanes, lanes share the parts, as warps do.
  constexpr int batch = 5;  // loads on their way
  const auto* pairs = reinterpret_cast<const float2*>(r.parts);
  int many = 32;
  while (many > 4 && many / 2 * gridDim.x >= places / 2) many /= 2;
  const int sharing = blockDim.x / many;
  for (int first = blockIdx.x * many; first < places / 2; first += gridDim.x * many) {
    const int pair = first + lane % many;
    float2 sum = {0.0f, 0.0f};
    for (int i = threadIdx.x / many; i < gridDim.x; i += batch * sharing) {
      float2 some[batch];
#pragma unroll
      for (int b = 0; b < batch; ++b)
        some[b] = i + b * sharing < gridDim.x && pair < places / 2
                      ? __ldcg(pairs + static_cast<int64_t>(i + b * sharing) * (places / 2) + pair)
                      : make_float2(0.0f, 0.0f);
#pragma unroll
      for (int b = 0; b < batch; ++b) sum.x += some[b].x, sum.y += some[b].y;
    }
    for (int step = many; step < 32; step *= 2)
      sum.x += __shfl_xor_sync(0xffffffffu, sum.x, step), sum.y += __shfl_xor_sync(0xffffffffu, sum.y, step);
    __syncthreads();  // the shared memory may still be read
    if (lane < many) reinterpret_cast<float2*>(memory)[warp * many + lane] = sum;
    __syncthreads();
    for (int i = threadIdx.x; i < 2 * many && first * 2 + i < places; i += blockDim.x) {
      float all = 0.0f;
#pragma unroll 8
      for (int w = 0; w < warps; ++w) all += shared[w * 2 * many + i];
      const int which = (first * 2 + i) / size;
      const int col = (which / Vec * size + first * 2 + i - which * size) * Vec + which % Vec;
      if (col < r.cols) r.grad_weight[col] = static_cast<scalar_t>(all);
    }
  }
}

// The elements of a row from `column` on, zeros beyond its end.
template <bool Aligned, typename scalar_t>
__device__ Pack<scalar_t, 16 / sizeof(scalar_t)> fetch(const scalar_t* row, int column, int cols) {
  constexpr int vec = 16 / sizeof(scalar_t);
  Pack<scalar_t, vec> pack;
  if constexpr (Aligned) {
    pack = *reinterpret_cast<const Pack<scalar_t, vec>*>(row + column);
  } else {
#pragma unroll
    for (int j = 0; j < vec; ++j) pack.at[j] = column + j < cols ? row[column + j] : static_cast<scalar_t>(0.0f);
  }
  return pack;
}

// The gains' gradients need no sum over a row, as rstd is given: reading everything a second time, mostly from the L2, costs
// less than a grid that meets. The first `strips` blocks have 64 bytes of each row, four threads a row; the others have a
// row each, a pack a thread. Little code: it is cold as well.
template <typename scalar_t, int Threads, bool Aligned>
__global__ void __launch_bounds__(Threads, Aligned ? 1280 / Threads : 1) small(Rows<scalar_t> r, int strips, float share) {
  constexpr int vec = 16 / sizeof(scalar_t), warps = Threads / 32, width = 4 * vec;
  using Some = Pack<scalar_t, vec>;
  __shared__ float partial[warps * width];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (blockIdx.x < strips) {
    const int column = blockIdx.x * width + threadIdx.x % 4 * vec;
    float sums[vec] = {};
    if (column < r.cols) {
#pragma unroll 4
      for (int row = threadIdx.x / 4; row < r.rows; row += Threads / 4) {
        const auto grad = fetch<Aligned>(r.grad_out + row * r.cols, column, r.cols);
        const auto x = fetch<Aligned>(r.x + row * r.cols, column, r.cols);
        const float rstd = r.rstd[row];
#pragma unroll
        for (int j = 0; j < vec; ++j) sums[j] += static_cast<float>(grad.at[j]) * (static_cast<float>(x.at[j]) * rstd);
      }
    }
#pragma unroll
    for (int j = 0; j < vec; ++j) {
#pragma unroll
      for (int step = 16; step >= 4; step /= 2) sums[j] += __shfl_xor_sync(0xffffffffu, sums[j], step);
      if (lane < 4) partial[warp * width + lane * vec + j] = sums[j];
    }
    __syncthreads();
    if (threadIdx.x >= width || blockIdx.x * width + threadIdx.x >= r.cols) return;
    float sum = 0.0f;
    for (int i = 0; i < warps; ++i) sum += partial[i * width + threadIdx.x];
    r.grad_weight[blockIdx.x * width + threadIdx.x] = static_cast<scalar_t>(sum);
    return;
  }
  const int row = blockIdx.x - strips, column = threadIdx.x * vec, start = row * r.cols;
  const bool present = column < r.cols;
  Some grad = {}, x = {}, gain = {};
  if (present) {
    grad = fetch<Aligned>(r.grad_out + start, column, r.cols);
    x = fetch<Aligned>(r.x + start, column, r.cols);
    gain = fetch<Aligned>(r.weight, column, r.cols);
  }
  const float rstd = r.rstd[row];
  float inner[vec], hat[vec], turned = 0.0f;
#pragma unroll
  for (int j = 0; j < vec; ++j) {
    inner[j] = static_cast<float>(grad.at[j]) * static_cast<float>(gain.at[j]);
    hat[j] = static_cast<float>(x.at[j]) * rstd;
    turned += inner[j] * hat[j];
  }
  turned = warp_sum(turned);
  if (lane == 0) partial[warp] = turned;
  __syncthreads();
  turned = warp_sum(lane < warps ? partial[lane] : 0.0f) * share;
  if (!present) return;
  Some result;
#pragma unroll
  for (int j = 0; j < vec; ++j) result.at[j] = static_cast<scalar_t>((inner[j] - hat[j] * turned) * rstd);
  if constexpr (Aligned) {
    *reinterpret_cast<Some*>(r.grad_x + start + column) = result;
  } else {
#pragma unroll
    for (int j = 0; j < vec; ++j)
      if (column + j < r.cols) r.grad_x[start + column + j] = result.at[j];
  }
}

template <bool Aligned, typename scalar_t>
void run_small(const Rows<scalar_t>& r, int packs, cudaStream_t stream) {
  const int strips = (packs + 3) / 4, threads = packs <= 128 ? 128 : packs <= 256 ? 256 : packs <= 512 ? 512 : 1024;
  const auto kernel = packs <= 128   ? small<scalar_t, 128, Aligned>
                      : packs <= 256 ? small<scalar_t, 256, Aligned>
                      : packs <= 512 ? small<scalar_t, 512, Aligned>
                                     : small<scalar_t, 1024, Aligned>;
  kernel<<<static_cast<unsigned>(strips + r.rows), threads, 0, stream>>>(r, strips, 1.0f / static_cast<float>(r.cols));
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

// Rows of any length, a block each.
template <typename scalar_t>
__global__ void __launch_bounds__(1024) long_rows(Rows<scalar_t> r) {
  const int64_t start = static_cast<int64_t>(blockIdx.x) * r.cols;
  const float rstd = r.rstd[blockIdx.x];
  float turned = 0.0f;
  for (int i = threadIdx.x; i < r.cols; i += 1024)
    turned += static_cast<float>(r.grad_out[start + i]) * static_cast<float>(r.weight[i]) *
              (static_cast<float>(r.x[start + i]) * rstd);
  __shared__ Partial partial;
  Team team(partial, 0, 1024);
  turned = team_sum(turned, team) / static_cast<float>(r.cols);
  for (int i = threadIdx.x; i < r.cols; i += 1024) {
    const float inner = static_cast<float>(r.grad_out[start + i]) * static_cast<float>(r.weight[i]);
    const float hat = static_cast<float>(r.x[start + i]) * rstd;
    r.grad_x[start + i] = static_cast<scalar_t>((inner - hat * turned) * rstd);
  }
}

// Column sums beside it: 32 columns a block, its warps share the rows.
template <typename scalar_t>
__global__ void __launch_bounds__(1024) long_columns(Rows<scalar_t> r) {
  __shared__ float shared[1024];
  const int col = blockIdx.x * 32 + threadIdx.x % 32;
  float sum = 0.0f;
  if (col < r.cols)
    for (int row = threadIdx.x / 32; row < r.rows; row += 32) {
      const int64_t at = static_cast<int64_t>(row) * r.cols + col;
      sum += static_cast<float>(r.grad_out[at]) * (static_cast<float>(r.x[at]) * r.rstd[row]);
    }
  shared[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x >= 32 || col >= r.cols) return;
  for (int i = 1; i < 32; ++i) sum += shared[i * 32 + threadIdx.x];
  r.grad_weight[col] = static_cast<scalar_t>(sum);
}

template <int Vec, int Packs, bool Prefetched, typename scalar_t>
void run_fused(Rows<scalar_t> r, torch::Tensor grad_weight, cudaStream_t stream) {
  r.team = (r.cols + Vec * Packs * 32 - 1) / (Vec * Packs * 32) * 32;
  const int room = std::min(at::cuda::getCurrentDeviceProperties()->multiProcessorCount *
                                (r.team <= THREADS ? 1024 / THREADS : 1), MOST_BLOCKS);
  // As many teams as fit, but rather a block on every SM than all rows in few blocks.
  r.teams = std::max(1, std::min({THREADS / r.team, kMostTeams, r.rows / room}));
  const int blocks = std::min(room, (r.rows + r.teams - 1) / r.teams), threads = r.team * r.teams;
  const int slots = Prefetched ? SLOTS / (2 * Packs) * (2 * Packs) : 0;
  const int bytes = std::max({slots * threads * 16, threads * Packs * Vec * 4, threads * 8}) + kPartials;
  auto parts = torch::empty({blocks, r.team * Packs * Vec}, grad_weight.options().dtype(torch::kFloat32));
  r.parts = parts.template data_ptr<float>();
  void* arguments[] = {&r};
  const auto kernel = reinterpret_cast<const void*>(&fused<scalar_t, Vec, Packs, Prefetched>);
  C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  C10_CUDA_CHECK(cudaLaunchCooperativeKernel(kernel, dim3(blocks), dim3(threads), arguments, bytes, stream));
}

template <typename scalar_t>
void run(Rows<scalar_t> r, torch::Tensor grad_weight, cudaStream_t stream) {
  constexpr int vec = 16 / sizeof(scalar_t);
  const auto places = reinterpret_cast<uintptr_t>(r.grad_out) | reinterpret_cast<uintptr_t>(r.x) |
                      reinterpret_cast<uintptr_t>(r.weight) | reinterpret_cast<uintptr_t>(r.grad_x);
  const bool aligned = r.cols % vec == 0 && places % 16 == 0;
  const int packs = (r.cols + vec - 1) / vec;
  const bool few = r.rows <= 8 * std::max(128, std::min(packs, 1024));  // else a strip would be too long for its block
  const bool little = few && static_cast<int64_t>(r.rows) * r.cols <= SMALL;
  if (little && packs <= 1024)
    return aligned ? run_small<true>(r, packs, stream) : run_small<false>(r, packs, stream);
  if (aligned && r.cols <= vec * 1024 && r.cols < LONG_COLS)
    return run_fused<vec, 1, true>(r, grad_weight, stream);
  if (aligned && vec == 4 && r.cols <= vec * 2048 && r.cols < LONG_COLS)
    return run_fused<vec, vec == 4 ? 2 : 1, true>(r, grad_weight, stream);
  if (r.cols < LONG_COLS && !little) {
    if (r.cols <= 512) return run_fused<1, 2, false>(r, grad_weight, stream);
    if (r.cols <= 2048) return run_fused<1, 4, false>(r, grad_weight, stream);
    return run_fused<1, 9, false>(r, grad_weight, stream);
  }
  long_rows<<<static_cast<unsigned>(r.rows), 1024, 0, stream>>>(r);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  long_columns<<<static_cast<unsigned>((r.cols + 31) / 32), 1024, 0, stream>>>(r);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace

std::vector<torch::Tensor> backward(torch::Tensor grad_out, torch::Tensor x, torch::Tensor weight, double eps,
                                    torch::Tensor rstd) {
  TORCH_CHECK(grad_out.is_contiguous() && x.is_contiguous() && weight.is_contiguous() && rstd.is_contiguous(),
              "tensors must be contiguous");
  auto grad_x = torch::empty_like(x), grad_weight = torch::empty_like(weight);
  const int64_t cols = x.size(-1), rows = x.numel() / cols;
  TORCH_CHECK(cols < (1 << 30) && rows < (1 << 30), "too large");
  DISPATCH(x, "rmsnorm_backward", [&] {
    run<scalar_t>({grad_out.data_ptr<scalar_t>(), x.data_ptr<scalar_t>(), weight.data_ptr<scalar_t>(),
                   rstd.data_ptr<float>(), grad_x.data_ptr<scalar_t>(), grad_weight.data_ptr<scalar_t>(), nullptr,
                   static_cast<int>(rows), static_cast<int>(cols), 0, 0},
                  grad_weight, at::cuda::getCurrentCUDAStream());
  });
  return {grad_x, grad_weight};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }

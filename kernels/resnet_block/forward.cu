// ResNet's basic block on tensor cores: two convolutions as implicit products (float32 by three TF32 products of split
// numbers, summed in float32), batch norm, shortcut and ReLU in their last steps. The hidden image lies with its
// channels last, as the second convolution reads it. Three launches: layouts, and the two convolutions. Where there are
// few tiles, groups of warps share a tile's sum; where there is little work, two launches without layouts or tensor cores.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#include <algorithm>

// Steps that are on their way to shared memory or in it.
// tune: STAGES = 3 [3, 4]
#ifndef STAGES
#define STAGES 3
#endif
// Tile of a block, filters by places: 0: 128 by 128, 1: 64 by 128, 2: 64 by 64, -1: by the shape.
// tune: TILES = -1 [-1, 0, 1, 2]
#ifndef TILES
#define TILES -1
#endif
// Up to so many tiles of 64 by 64, groups of warps share the sum of each (0: never); 132: one for each multiprocessor.
// tune: FEW_TILES = 132 [0, 132, 264]
#ifndef FEW_TILES
#define FEW_TILES 132
#endif
// Groups of four warps that share a tile's sum then (at most 4).
// tune: GROUPS = 3 [2, 3, 4]
#ifndef GROUPS
#define GROUPS 3
#endif
// Up to so many products in a convolution (in units of 2^20), each convolution is one launch without layouts (0: never).
// tune: LITTLE_WORK = 64 [0, 16, 32, 64, 128]
#ifndef LITTLE_WORK
#define LITTLE_WORK 64
#endif

namespace {

// ---- copies to shared memory and tensor-core products -------------------------------------------------------------

__device__ __forceinline__ unsigned smem_of(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }

// 16 bytes to shared memory in the background; zeros where not `inside` (nothing is read then).
__device__ __forceinline__ void copy16(void* to, const void* from, bool inside) {
  const int bytes = inside ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(smem_of(to)), "l"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ void copies_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int Left>
__device__ __forceinline__ void copies_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Left) : "memory");
}

__device__ __forceinline__ void ldmatrix4(unsigned (&r)[4], const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(smem_of(p))
               : "memory");
}
__device__ __forceinline__ void ldmatrix4_trans(unsigned (&r)[4], const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(smem_of(p))
               : "memory");
}

__device__ __forceinline__ void mma(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, __half) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void mma(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, __nv_bfloat16) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void mma_tf32(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// A float32 as the sum of two TF32 numbers, exact to about 2^-21: the nearest one and what is left of it (the tensor core
// does not look at the 13 lowest bits). Three products of the parts then give the float32 product to about its roundoff.
__device__ __forceinline__ void split(unsigned x, unsigned& big, unsigned& small) {
  big = (x + 0x1000u) & 0xffffe000u;
  small = __float_as_uint(__uint_as_float(x) - __uint_as_float(big));
}
template <int N>
__device__ __forceinline__ void split(const unsigned (&x)[N], unsigned (&big)[N], unsigned (&small)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) split(x[i], big[i], small[i]);
}

// ---- convolution as a product without its matrix: rows are filters, columns are places, the sum goes over taps and
// channels. The source lies with its channels last (padded to whole steps by zeros), weights as [row][tap][channel], so
// that every copy to shared memory is 16 bytes wide. ------------------------------------------------------------------

constexpr int kStages = STAGES;
constexpr int kPitch = 144;  // bytes of a row of 128 in shared memory: matrix loads meet no bank twice

template <typename T>
constexpr int kStep = 128 / static_cast<int>(sizeof(T));  // channels summed at once

template <typename T>
int padded(int64_t channels) {
  return static_cast<int>((channels + kStep<T> - 1) / kStep<T> * kStep<T>);
}

// Where place (y, x) finds tap (i, j): y·mul + top + i·step, likewise x; the weights' tap is (first + i·stride).
struct Taps {
  int down, across, mul, top, left, step, first_down, first_across, stride;
};

// Source with channels last.
struct Source {
  int height, width, depth, kernel;
};

template <int G>
constexpr int kAhead = G == 1 || kStages < 3 ? kStages : 3;  // stages: groups of warps have some each

template <typename T, int BM, int BN, int WM, int WN, int G>
constexpr int conv_bytes() {
  return G * kAhead<G> * (BM + BN) * kPitch;
}

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(__half x) { return __half2float(x); }
__device__ __forceinline__ void put(float* to, float x) { *to = x; }
__device__ __forceinline__ void put(__half* to, float x) { *to = __float2half_rn(x); }
__device__ __forceinline__ void put2(float* to, float x, float y) { *reinterpret_cast<float2*>(to) = make_float2(x, y); }
__device__ __forceinline__ void put2(__half* to, float x, float y) {
  *reinterpret_cast<__half2*>(to) = __floats2half2_rn(x, y);
}

// One step of a block's product from shared memory: a has BM rows of 128 bytes, b has BN.
template <int MT, int NT>
__device__ __forceinline__ void multiply(float (&acc)[MT][NT][4], const unsigned char* a, const unsigned char* b,
                                         __half) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int kk = 0; kk < 4; ++kk) {
    unsigned left[MT][4];
#pragma unroll
    for (int m = 0; m < MT; ++m) ldmatrix4(left[m], a + (m * 16 + lane % 16) * kPitch + kk * 32 + lane / 16 * 16);
#pragma unroll
    for (int n = 0; n < NT; n += 2) {
      unsigned right[4];
      ldmatrix4(right, b + (n * 8 + lane % 8 + lane / 16 * 8) * kPitch + kk * 32 + lane / 8 % 2 * 16);
#pragma unroll
      for (int m = 0; m < MT; ++m) {
        mma(acc[m][n], left[m], right[0], right[1], __half());
        mma(acc[m][n + 1], left[m], right[2], right[3], __half());
      }
    }
  }
}

// The same of float32 by split numbers. The tensor core truncates what it adds up, so a step has sums of its own, and
// those are added in float32.
template <int MT, int NT>
__device__ __forceinline__ void multiply(float (&acc)[MT][NT][4], const unsigned char* a, const unsigned char* b,
                                         float) {
  const int lane = threadIdx.x % 32;
  float part[MT][NT][4] = {};
#pragma unroll
  for (int kk = 0; kk < 4; ++kk) {
    unsigned big[MT][4], small[MT][4];
#pragma unroll
    for (int m = 0; m < MT; ++m) {
      unsigned left[4];
      ldmatrix4(left, a + (m * 16 + lane % 16) * kPitch + kk * 32 + lane / 16 * 16);
      split(left, big[m], small[m]);
    }
#pragma unroll
    for (int n = 0; n < NT; n += 2) {
      unsigned right[4];
      ldmatrix4(right, b + (n * 8 + lane % 8 + lane / 16 * 8) * kPitch + kk * 32 + lane / 8 % 2 * 16);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const unsigned both[2] = {right[i * 2], right[i * 2 + 1]};
        unsigned b_big[2], b_small[2];
        split(both, b_big, b_small);
#pragma unroll
        for (int m = 0; m < MT; ++m) mma_tf32(part[m][n + i], small[m], b_big);
#pragma unroll
        for (int m = 0; m < MT; ++m) mma_tf32(part[m][n + i], big[m], b_small);
#pragma unroll
        for (int m = 0; m < MT; ++m) mma_tf32(part[m][n + i], big[m], b_big);
      }
    }
  }
#pragma unroll
  for (int m = 0; m < MT; ++m)
#pragma unroll
    for (int n = 0; n < NT; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) acc[m][n][i] += part[m][n][i];
}

// Waits for the other threads of a group of warps.
template <int G, int Threads>
__device__ __forceinline__ void group_sync(int group) {
  if constexpr (G == 1)
    __syncthreads();
  else
    asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "n"(Threads) : "memory");
}

// Sums of G groups of warps, added in the groups' order: group m < MT gets the tile's rows m of 16.
template <int G, int Threads, int MT, int NT>
__device__ __forceinline__ void join_groups(const float (&acc)[MT][NT][4], float (&sum)[1][NT][4], float* all, int group,
                                            unsigned thread) {
  static_assert(G >= MT, "a group for each 16 rows");
  __syncthreads();  // what was multiplied is no longer read
#pragma unroll
  for (int i = 0; i < MT * NT * 4; ++i)
    all[(group * MT * NT * 4 + i) * Threads + thread] = acc[i / (NT * 4)][i / 4 % NT][i % 4];
  __syncthreads();
  if (group >= MT) return;
#pragma unroll
  for (int from = 0; from < G; ++from)
#pragma unroll
    for (int i = 0; i < NT * 4; ++i)
      sum[0][i / 4][i % 4] += all[((from * MT + group) * NT * 4 + i) * Threads + thread];
}

// Job says which places the columns are, which taps they have (blockIdx.z: a class of places), and what becomes of sums.
// G groups of warps each take a part of the steps.
template <typename T, int BM, int BN, int WM, int WN, int G, typename Job>
__global__ __launch_bounds__(BM / WM * (BN / WN) * 32 * G, sizeof(T) == 2 ? 2 : 1) void conv(const T* weights, const T* source, Source s, Job job,
                                                               int rows, int row_tiles) {
  constexpr int threads = BM / WM * (BN / WN) * 32, each = 16 / sizeof(T), down = threads / 8, stages = kAhead<G>;
  constexpr int MT = WM / 16, NT = WN / 8;
  extern __shared__ __align__(16) unsigned char all_room[];
  const int group = G == 1 ? 0 : threadIdx.x / threads;
  const unsigned thread = G == 1 ? threadIdx.x : threadIdx.x % threads;
  unsigned char* const room = all_room + group * stages * (BM + BN) * kPitch;
  const Taps taps = job.taps();
  const int columns = job.columns();
  const int row0 = static_cast<int>(blockIdx.x) % row_tiles * BM, col0 = static_cast<int>(blockIdx.x) / row_tiles * BN;
  if (col0 >= columns) return;
  const int piece = thread % 8, line = thread / 8;

  int image[BN / down], top[BN / down], left[BN / down];
#pragma unroll
  for (int u = 0; u < BN / down; ++u) {
    int y = 0, x = 0;
    const int col = col0 + line + u * down;
    image[u] = 0;
    if (col < columns) job.place(col, image[u], y, x);
    top[u] = col < columns ? y * taps.mul + taps.top : -(1 << 24);  // outside for every tap
    left[u] = x * taps.mul + taps.left;
  }
  const int64_t pitch = static_cast<int64_t>(s.kernel) * s.kernel * s.depth;

  const int deep = s.depth / kStep<T>, total = taps.down * taps.across * deep;
  const int first = total * group / G, steps = total * (group + 1) / G - first;
  int i = 0, j = 0, c0 = 0;  // the step that is loaded next
  if (G > 1) {
    i = first / deep / taps.across;
    j = first / deep % taps.across;
    c0 = first % deep * kStep<T>;
  }
  const auto load = [&](int stage) {
    unsigned char* const a = room + stage * (BM + BN) * kPitch;
    unsigned char* const b = a + BM * kPitch;
    const int tap = (taps.first_down + i * taps.stride) * s.kernel + taps.first_across + j * taps.stride;
    const int channel = c0 + piece * each;
#pragma unroll
    for (int u = 0; u < BM / down; ++u) {
      const int row = line + u * down;
      const bool inside = row0 + row < rows;
      copy16(a + row * kPitch + piece * 16, inside ? weights + (row0 + row) * pitch + tap * s.depth + channel : weights,
             inside);
    }
#pragma unroll
    for (int u = 0; u < BN / down; ++u) {
      const int y = top[u] + i * taps.step, x = left[u] + j * taps.step;
      const bool inside = y >= 0 && y < s.height && x >= 0 && x < s.width;
      const int64_t at = (static_cast<int64_t>(image[u]) * s.height + y) * s.width + x;
      copy16(b + (line + u * down) * kPitch + piece * 16, inside ? source + at * s.depth + channel : source, inside);
    }
    c0 += kStep<T>;
    if (c0 == s.depth) {
      c0 = 0;
      if (++j == taps.across) {
        j = 0;
        ++i;
      }
    }
  };

  float acc[MT][NT][4] = {};
#pragma unroll
  for (int stage = 0; stage < stages - 1; ++stage) {
    if (stage < steps) load(stage);
    copies_commit();
  }
  const int warp = thread / 32, wm = warp / (BN / WN) * WM, wn = warp % (BN / WN) * WN;
  int read = 0, write = stages - 1;
  for (int step = 0; step < steps; ++step) {
    copies_wait<stages - 2>();
    group_sync<G, threads>(group);
    if (step + stages - 1 < steps) load(write);
    copies_commit();
    const unsigned char* const a = room + read * (BM + BN) * kPitch;
    multiply<MT, NT>(acc, a + wm * kPitch, a + (BM + wn) * kPitch, T());
    read = read + 1 == stages ? 0 : read + 1;
    write = write + 1 == stages ? 0 : write + 1;
  }
  if constexpr (G == 1) {
    job.template store<MT, NT>(acc, row0 + wm, col0 + wn, rows, columns);
  } else {
    float sum[1][NT][4] = {};
    join_groups<G, threads>(acc, sum, reinterpret_cast<float*>(all_room), group, thread);
    if (group < MT) job.template store<1, NT>(sum, row0 + wm + group * 16, col0 + wn, rows, columns);
  }
}

// Places in the order of an image: column = (image, y, x).
struct Dense {
  int batch, height, width;
  __device__ __forceinline__ int columns() const { return batch * height * width; }
  __device__ __forceinline__ void place(int col, int& image, int& y, int& x) const {
    const int area = height * width;
    image = col / area;
    const int at = col - image * area;
    y = at / width;
    x = at - y * width;
  }
};

inline Taps plain_taps(int kernel, int stride, int padding) {
  return {kernel, kernel, stride, -padding, -padding, 1, 0, 0, 1};
}

// Launches the tile that keeps the multiprocessors busiest.
template <typename T, int BM, int BN, int WM, int WN, int G, typename Job>
void conv_launch(const T* weights, const T* source, Source s, Job job, int rows, int columns, int classes,
                 cudaStream_t stream) {
  constexpr int bytes = conv_bytes<T, BM, BN, WM, WN, G>(), threads = BM / WM * (BN / WN) * 32 * G;
  const auto kernel = &conv<T, BM, BN, WM, WN, G, Job>;
  C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  const int row_tiles = (rows + BM - 1) / BM, col_tiles = (columns + BN - 1) / BN;
  kernel<<<dim3(static_cast<unsigned>(row_tiles * col_tiles), 1, static_cast<unsigned>(classes)), threads, bytes,
           stream>>>(weights, source, s, job, rows, row_tiles);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

// A tile's cost: rounds over the multiprocessors, `slots` blocks on each, by its size and how well it reuses what it
// loads.
inline double tile_cost(int rows, int columns, int classes, int bm, int bn, int slots, double speed) {
  const int64_t tiles = static_cast<int64_t>((rows + bm - 1) / bm) * ((columns + bn - 1) / bn) * classes;
  const int64_t full = tiles / (132 * slots), rest = tiles % (132 * slots);
  const double tail = rest == 0 ? 0.0 : (rest + 131) / 132 == 1 && slots > 1 ? 0.6 * slots : (rest + 131) / 132;
  return (static_cast<double>(full) * slots + tail) * bm * bn / speed;
}

template <typename T, typename Job>
void conv_any(const T* weights, const T* source, Source s, Job job, int rows, int columns, int classes,
              cudaStream_t stream) {
  const double wide = tile_cost(rows, columns, classes, 128, 128, sizeof(T) == 4 ? 1 : 2, 1.0);
  const double flat = tile_cost(rows, columns, classes, 64, 128, 2, 0.95);
  const double small = tile_cost(rows, columns, classes, 64, 64, 4, 0.8);
  const int choice = TILES >= 0 ? TILES : wide <= flat && wide <= small ? 0 : flat <= small ? 1 : 2;
  if (TILES < 0 && static_cast<int64_t>((rows + 63) / 64) * ((columns + 63) / 64) * classes <= FEW_TILES)
    conv_launch<T, 64, 64, 32, 32, GROUPS>(weights, source, s, job, rows, columns, classes, stream);
  else if (choice == 0)
    conv_launch<T, 128, 128, 64, 32, 1>(weights, source, s, job, rows, columns, classes, stream);
  else if (choice == 1)
    conv_launch<T, 64, 128, 64, 32, 1>(weights, source, s, job, rows, columns, classes, stream);
  else
    conv_launch<T, 64, 64, 32, 32, 1>(weights, source, s, job, rows, columns, classes, stream);
}

// ---- layouts ---------------------------------------------------------------------------------------------------------

// One block's part of: images to channels last. 32 channels by 64 places through shared memory; block 256 threads.
template <typename T>
__device__ __forceinline__ void channels_last(const T* from, T* to, int channels, int area, int depth, int block,
                                              float (*tile)[65]) {
  const int places = (area + 63) / 64, groups = depth / 32;
  const int place0 = block % places * 64, c0 = block / places % groups * 32;
  const int64_t image = block / places / groups;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int c = warp; c < 32; c += 8) {
    const T* const line = from + (image * channels + c0 + c) * area + place0;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int p = lane + half * 32;
      tile[c][p] = c0 + c < channels && place0 + p < area ? to_float(line[p]) : 0.0f;
    }
  }
  __syncthreads();
  for (int p = warp; p < 64 && place0 + p < area; p += 8)
    put(to + (image * area + place0 + p) * depth + c0 + lane, tile[lane][p]);
}

// One block's part of: weights [row][channel][tap] to [row][tap][depth]; a warp has 32 channels of one row.
template <typename T>
__device__ __forceinline__ void weights_by_row(const T* from, T* to, int rows, int channels, int taps, int depth,
                                               int block) {
  const int lane = threadIdx.x % 32, groups = depth / 32;
  const int64_t item = block * 8ll + threadIdx.x / 32;
  const int64_t row = item / groups;
  const int c = static_cast<int>(item % groups) * 32 + lane;
  if (row >= rows) return;
  for (int tap = 0; tap < taps; ++tap) {
    T value;
    put(&value, 0.0f);
    if (c < channels) value = from[(row * channels + c) * taps + tap];
    to[(row * taps + tap) * depth + c] = value;
  }
}

inline int channels_last_blocks(int batch, int area, int depth) { return batch * ((area + 63) / 64) * (depth / 32); }
inline int weights_by_row_blocks(int rows, int depth) { return (rows * (depth / 32) + 7) / 8; }

// Layouts in one launch: the image, then the two convolutions' weights.
__global__ __launch_bounds__(256) void prepare(const float* x, float* images, const float* weight1, float* weights1,
                                               const float* weight2, float* weights2, int channels, int area, int depth,
                                               int image_blocks, int weight_blocks) {
  __shared__ float tile[32][65];
  const int block = static_cast<int>(blockIdx.x) - image_blocks;
  if (block < 0)
    channels_last(x, images, channels, area, depth, block + image_blocks, tile);
  else if (block < weight_blocks)
    weights_by_row(weight1, weights1, channels, channels, 9, depth, block);
  else
    weights_by_row(weight2, weights2, channels, channels, 9, depth, block - weight_blocks);
}

struct Norm {
  const float *gamma, *beta, *mean, *var;
  float eps;
  __device__ __forceinline__ void of(int channel, float& scale, float& shift) const {
    scale = gamma[channel] / sqrtf(var[channel] + eps);
    shift = beta[channel] - mean[channel] * scale;
  }
};

// Norm and ReLU, channels last; the padding is written as zeros.
struct Hidden : Dense {
  Norm norm;
  float* out;
  int depth;
  __device__ __forceinline__ Taps taps() const { return {3, 3, 1, -1, -1, 1, 0, 0, 1}; }

  template <int MT, int NT>
  __device__ __forceinline__ void store(const float (&acc)[MT][NT][4], int row0, int col0, int rows, int columns) const {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int m = 0; m < MT; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = row0 + m * 16 + g + half * 8;
        if (row >= depth) continue;
        float scale = 0.0f, shift = 0.0f;
        if (row < rows) norm.of(row, scale, shift);
#pragma unroll
        for (int i = 0; i < NT * 2; ++i) {
          const int col = col0 + i / 2 * 8 + t * 2 + i % 2;
          const float value = fmaxf(fmaf(acc[m][i / 2][half * 2 + i % 2], scale, shift), 0.0f);
          if (col < columns) out[static_cast<int64_t>(col) * depth + row] = value;
        }
      }
  }
};

// Norm, shortcut and ReLU, as torch lays images out.
struct Output : Dense {
  Norm norm;
  const float* shortcut;
  float* out;
  __device__ __forceinline__ Taps taps() const { return {3, 3, 1, -1, -1, 1, 0, 0, 1}; }

  template <int MT, int NT>
  __device__ __forceinline__ void store(const float (&acc)[MT][NT][4], int row0, int col0, int rows, int columns) const {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, area = height * width;
#pragma unroll
    for (int m = 0; m < MT; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = row0 + m * 16 + g + half * 8;
        if (row >= rows) continue;
        float scale, shift;
        norm.of(row, scale, shift);
#pragma unroll
        for (int n = 0; n < NT; ++n) {
          const int col = col0 + n * 8 + t * 2;
          const float a = fmaf(acc[m][n][half * 2], scale, shift), b = fmaf(acc[m][n][half * 2 + 1], scale, shift);
          if (area % 2 == 0) {
            if (col >= columns) continue;
            const int64_t at = (static_cast<int64_t>(col / area) * rows + row) * area + col % area;
            const float2 add = *reinterpret_cast<const float2*>(shortcut + at);
            put2(out + at, fmaxf(a + add.x, 0.0f), fmaxf(b + add.y, 0.0f));
          } else {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
              if (col + i >= columns) continue;
              const int64_t at = (static_cast<int64_t>((col + i) / area) * rows + row) * area + (col + i) % area;
              out[at] = fmaxf((i ? b : a) + shortcut[at], 0.0f);
            }
          }
        }
      }
  }
};

// ---- little work: a block has 32 places of four filters, its warps share the channels ------------------------------------
// Few results are summed in float64: an error is held against the results' size, and a few of them may all be small beside
// their terms.

// At most so many results, or products with no sum longer than SHORT_SUM.
#ifndef FEW_RESULTS
#define FEW_RESULTS 128
#endif
#ifndef SHORT_SUM
#define SHORT_SUM 32
#endif

inline bool is_few(int64_t channels, int64_t places) {
  if (places * channels * channels * 9 > 1 << 24) return false;
  return places * channels <= FEW_RESULTS || std::max(channels * 9, places) <= SHORT_SUM;
}

// One convolution with its norm, and the shortcut where one is given; then ReLU. Everything as torch lays it out.
template <typename Sum, typename T, typename U>
__global__ __launch_bounds__(256) void conv_little(const T* from, const float* weight, Norm norm, double eps,
                                                   const float* shortcut, U* out, int channels, int height, int width,
                                                   int places) {
  constexpr int filters = 4, together = 64;  // channels whose weights are in shared memory
  __shared__ __align__(16) float by[together * 9][filters];
  __shared__ Sum parts[8][filters][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, area = height * width, groups = (channels + filters - 1) / filters;
  const int f0 = static_cast<int>(blockIdx.x) % groups * filters, place = static_cast<int>(blockIdx.x) / groups * 32 + lane;
  const int image = place / area, at = place - image * area, y = at / width, x = at - y * width;
  bool inside[9];
#pragma unroll
  for (int tap = 0; tap < 9; ++tap) {
    const int row = y + tap / 3 - 1, col = x + tap % 3 - 1;
    inside[tap] = place < places && row >= 0 && row < height && col >= 0 && col < width;
  }

  Sum sum[filters] = {};
  for (int c0 = 0; c0 < channels; c0 += together) {
    const int count = min(together, channels - c0);
    __syncthreads();
    for (int f = 0; f < filters; ++f)
      for (int i = threadIdx.x; i < count * 9; i += 256)
        by[i][f] = f0 + f < channels ? weight[((f0 + f) * channels + c0) * 9 + i] : 0.0f;
    __syncthreads();
#pragma unroll 2
    for (int c = warp; c < count; c += 8) {
      const T* const line = from + (static_cast<int64_t>(image) * channels + c0 + c) * area + at;
      T value[9];
#pragma unroll
      for (int tap = 0; tap < 9; ++tap) value[tap] = inside[tap] ? line[(tap / 3 - 1) * width + tap % 3 - 1] : T(0);
#pragma unroll
      for (int tap = 0; tap < 9; ++tap) {
        const float4 w = *reinterpret_cast<const float4*>(by[c * 9 + tap]);
        const Sum v = value[tap];
        sum[0] = fma(v, static_cast<Sum>(w.x), sum[0]);
        sum[1] = fma(v, static_cast<Sum>(w.y), sum[1]);
        sum[2] = fma(v, static_cast<Sum>(w.z), sum[2]);
        sum[3] = fma(v, static_cast<Sum>(w.w), sum[3]);
      }
    }
  }
#pragma unroll
  for (int f = 0; f < filters; ++f) parts[warp][f][lane] = sum[f];
  __syncthreads();
  const int filter = f0 + warp;  // a warp has the results of one
  if (warp >= filters || filter >= channels || place >= places) return;
  Sum value = 0;
#pragma unroll
  for (int part = 0; part < 8; ++part) value += parts[part][warp][lane];
  value = (value - norm.mean[filter]) / sqrt(norm.var[filter] + static_cast<Sum>(eps)) * norm.gamma[filter] + norm.beta[filter];
  const int64_t result = (static_cast<int64_t>(image) * channels + filter) * area + at;
  if (shortcut) value += shortcut[result];
  out[result] = static_cast<U>(value > 0 ? value : 0);
}

Norm norm_of(torch::Tensor gamma, torch::Tensor beta, torch::Tensor mean, torch::Tensor var, double eps) {
  return {gamma.data_ptr<float>(), beta.data_ptr<float>(), mean.data_ptr<float>(), var.data_ptr<float>(),
          static_cast<float>(eps)};
}

}  // namespace

torch::Tensor forward(torch::Tensor x, torch::Tensor weight1, torch::Tensor gamma1, torch::Tensor beta1,
                      torch::Tensor weight2, torch::Tensor gamma2, torch::Tensor beta2, torch::Tensor mean1,
                      torch::Tensor var1, torch::Tensor mean2, torch::Tensor var2, double eps) {
  TORCH_CHECK(x.is_contiguous() && weight1.is_contiguous() && weight2.is_contiguous(), "tensors must be contiguous");
  auto out = torch::empty_like(x);
  if (out.numel() == 0) return out;
  const int batch = static_cast<int>(x.size(0)), channels = static_cast<int>(x.size(1));
  const int height = static_cast<int>(x.size(2)), width = static_cast<int>(x.size(3));
  const int area = height * width, columns = batch * area;
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  const Norm norm1 = norm_of(gamma1, beta1, mean1, var1, eps), norm2 = norm_of(gamma2, beta2, mean2, var2, eps);
  const int64_t products = static_cast<int64_t>(columns) * channels * channels * 9;
  const auto little = [&](auto zero) {  // of the type of sums and of the hidden image
    using Sum = decltype(zero);
    auto between = torch::empty_like(x, x.options().dtype(sizeof(Sum) == 8 ? torch::kFloat64 : torch::kFloat32));
    Sum* const hidden = between.template data_ptr<Sum>();
    const float *const from = x.data_ptr<float>(), *const none = nullptr;
    const auto blocks = static_cast<unsigned>((columns + 31) / 32 * ((channels + 3) / 4));
    conv_little<Sum><<<blocks, 256, 0, stream>>>(from, weight1.data_ptr<float>(), norm1, eps, none, hidden, channels, height,
                                                 width, columns);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    conv_little<Sum><<<blocks, 256, 0, stream>>>(hidden, weight2.data_ptr<float>(), norm2, eps, from, out.data_ptr<float>(),
                                                 channels, height, width, columns);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  };
  if (is_few(channels, columns)) {
    little(0.0);
    return out;
  }
  if (products <= static_cast<int64_t>(LITTLE_WORK) << 20) {
    little(0.0f);
    return out;
  }
  const int depth = padded<float>(channels);
  auto images = torch::empty({2, columns, depth}, x.options());
  auto weights = torch::empty({2, channels, 9, depth}, x.options());
  float *const last = images.data_ptr<float>(), *const hidden = last + static_cast<int64_t>(columns) * depth;
  float *const by1 = weights.data_ptr<float>(), *const by2 = by1 + static_cast<int64_t>(channels) * 9 * depth;

  const int image_blocks = channels_last_blocks(batch, area, depth), weight_blocks = weights_by_row_blocks(channels, depth);
  prepare<<<static_cast<unsigned>(image_blocks + 2 * weight_blocks), 256, 0, stream>>>(
      x.data_ptr<float>(), last, weight1.data_ptr<float>(), by1, weight2.data_ptr<float>(), by2, channels, area, depth,
      image_blocks, weight_blocks);
  C10_CUDA_KERNEL_LAUNCH_CHECK();

  const Source source = {height, width, depth, 3};
  const Dense places = {batch, height, width};
  const Hidden first = {places, norm1, hidden, depth};
  const Output second = {places, norm2, x.data_ptr<float>(), out.data_ptr<float>()};
  conv_any<float>(by1, last, source, first, channels, columns, 1, stream);
  conv_any<float>(by2, hidden, source, second, channels, columns, 1, stream);
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }

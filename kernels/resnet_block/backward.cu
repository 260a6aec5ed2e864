// Gradients of ResNet's basic block as implicit products on tensor cores (float32 by three TF32 products of split numbers,
// summed in float32). Launches: layouts with the outer gate and norm, the second convolution's input with the inner gate
// and norm, the first one's with the shortcut, both weights' gradients in parts, and what joins parts.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#include <algorithm>
#include <vector>

// Steps that are on their way to shared memory or in it.
#ifndef STAGES
#define STAGES 3
#endif
// Tile of a block, filters by places: 0: 128 by 128, 1: 64 by 128, 2: 64 by 64, -1: by the shape.
// tune: TILES = -1 [-1, 1, 2]
#ifndef TILES
#define TILES -1
#endif

// How many rounds of blocks share the sums of the weights' gradient.
// tune: PART_ROUNDS = 2 [1, 2]
#ifndef PART_ROUNDS
#define PART_ROUNDS 2
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

template <typename T, int BM, int BN, int WM, int WN>
constexpr int conv_bytes() {
  return kStages * (BM + BN) * kPitch;
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

// Job says which places the columns are, which taps they have (blockIdx.z: a class of places), and what becomes of sums.
template <typename T, int BM, int BN, int WM, int WN, typename Job>
__global__ __launch_bounds__(BM / WM * (BN / WN) * 32, sizeof(T) == 2 ? 2 : 1) void conv(const T* weights, const T* source, Source s, Job job,
                                                               int rows, int row_tiles) {
  constexpr int threads = BM / WM * (BN / WN) * 32, each = 16 / sizeof(T), down = threads / 8;
  constexpr int MT = WM / 16, NT = WN / 8;
  extern __shared__ __align__(16) unsigned char room[];
  const Taps taps = job.taps();
  const int columns = job.columns();
  const int row0 = static_cast<int>(blockIdx.x) % row_tiles * BM, col0 = static_cast<int>(blockIdx.x) / row_tiles * BN;
  if (col0 >= columns) return;
  const int piece = threadIdx.x % 8, line = threadIdx.x / 8;

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

  int i = 0, j = 0, c0 = 0;  // the step that is loaded next
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
  const int steps = taps.down * taps.across * (s.depth / kStep<T>);
#pragma unroll
  for (int stage = 0; stage < kStages - 1; ++stage) {
    if (stage < steps) load(stage);
    copies_commit();
  }
  const int warp = threadIdx.x / 32, wm = warp / (BN / WN) * WM, wn = warp % (BN / WN) * WN;
  int read = 0, write = kStages - 1;
  for (int step = 0; step < steps; ++step) {
    copies_wait<kStages - 2>();
    __syncthreads();
    if (step + kStages - 1 < steps) load(write);
    copies_commit();
    const unsigned char* const a = room + read * (BM + BN) * kPitch;
    multiply<MT, NT>(acc, a + wm * kPitch, a + (BM + wn) * kPitch, T());
    read = read + 1 == kStages ? 0 : read + 1;
    write = write + 1 == kStages ? 0 : write + 1;
  }
  job.template store<MT, NT>(acc, row0 + wm, col0 + wn, rows, columns);
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
template <typename T, int BM, int BN, int WM, int WN, typename Job>
void conv_launch(const T* weights, const T* source, Source s, Job job, int rows, int columns, int classes,
                 cudaStream_t stream) {
  constexpr int bytes = conv_bytes<T, BM, BN, WM, WN>(), threads = BM / WM * (BN / WN) * 32;
  const auto kernel = &conv<T, BM, BN, WM, WN, Job>;
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
  if (choice == 0)
    conv_launch<T, 128, 128, 64, 32>(weights, source, s, job, rows, columns, classes, stream);
  else if (choice == 1)
    conv_launch<T, 64, 128, 64, 32>(weights, source, s, job, rows, columns, classes, stream);
  else
    conv_launch<T, 64, 64, 32, 32>(weights, source, s, job, rows, columns, classes, stream);
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

// One block's part of: weights [row][channel][tap] to [channel][tap][depth of rows], 32 rows by up to 64 entries.
template <typename T>
__device__ __forceinline__ void weights_by_channel(const T* from, T* to, int rows, int channels, int taps, int depth,
                                                   int block, float (*tile)[65]) {
  const int together = max(64 / taps, 1), groups = depth / 32;
  const int row0 = block % groups * 32, c0 = block / groups * together;
  const int entries = min(together, channels - c0) * taps;
  for (int i = threadIdx.x; i < 32 * entries; i += 256) {
    const int row = i / entries, entry = i % entries;
    tile[row][entry] =
        row0 + row < rows ? to_float(from[(static_cast<int64_t>(row0 + row) * channels + c0) * taps + entry]) : 0.0f;
  }
  __syncthreads();
  const int lane = threadIdx.x % 32;
  for (int entry = threadIdx.x / 32; entry < entries; entry += 8)
    put(to + (static_cast<int64_t>(c0) * taps + entry) * depth + row0 + lane, tile[lane][entry]);
}
inline int weights_by_channel_blocks(int channels, int taps, int depth) {
  const int together = taps < 64 ? 64 / taps : 1;
  return depth / 32 * ((channels + together - 1) / together);
}

// ---- the gradient of an image: the same product, from the gradient's places to the image's. With a stride, the image's
// places fall into classes (blockIdx.z) of the same taps. --------------------------------------------------------------

struct ImagePlaces {
  int batch, height, width, kernel, stride, padding;
  __device__ __forceinline__ int down() const { return static_cast<int>(blockIdx.z) / stride; }
  __device__ __forceinline__ int right() const { return static_cast<int>(blockIdx.z) % stride; }
  __device__ __forceinline__ int count(int size, int first) const { return max((size - first + stride - 1) / stride, 0); }
  __device__ __forceinline__ int columns() const { return batch * count(height, down()) * count(width, right()); }
  __device__ __forceinline__ Taps taps() const {
    const int r = (down() + padding) % stride, c = (right() + padding) % stride;
    return {count(kernel, r), count(kernel, c), 1, (down() + padding - r) / stride, (right() + padding - c) / stride, -1,
            r, c, stride};
  }
  __device__ __forceinline__ void place(int col, int& image, int& y, int& x) const {
    const int high = count(height, down()), wide = count(width, right()), area = high * wide;
    image = col / area;
    const int at = col - image * area;
    y = at / wide;
    x = at - y * wide;
  }
};

// ---- the gradient of weights: rows are filters, columns are (tap, channel), the sum goes over places. Both operands lie
// with places as rows, so fragments are read across. The sum is cut in parts (blockIdx.y), joined by a later launch. ----

// Division by a number known on the host, for dividends below 2^31.
struct Divider {
  unsigned by, mul, shift;
  explicit Divider(unsigned by = 1) : by(by), mul(0), shift(0) {
    while ((1ull << shift) < by) ++shift;
    mul = static_cast<unsigned>((((1ull << shift) - by) << 32) / by + 1);
  }
  __device__ __forceinline__ int of(int x) const {
    return static_cast<int>((__umulhi(static_cast<unsigned>(x), mul) + static_cast<unsigned>(x)) >> shift);
  }
};

template <typename T>
struct Filters {
  const T *grad, *images;  // channels last: [place][rows], [place][depth]
  float* parts;            // [part][filters][taps·depth]
  int filters, rows, depth, kernel, stride, padding, height, width, places, each;  // each: places of a part
  Divider area, across;    // of the gradient's places
};

// One or two problems of one shape (blockIdx.z).
template <typename T>
struct Problems {
  Filters<T> of[2];
};

constexpr int kDeep = 32;  // places summed at once

template <typename T, int BM, int BN>
constexpr int filters_bytes() {
  return kStages * kDeep * ((BM + BN) * static_cast<int>(sizeof(T)) + 16 * static_cast<int>(sizeof(T)));
}

template <typename T, int BM, int BN, int WM, int WN>
__global__ __launch_bounds__(BM / WM * (BN / WN) * 32, sizeof(T) == 2 ? 2 : 1) void filter_gradients(
    const __grid_constant__ Problems<T> problems) {
  constexpr int threads = BM / WM * (BN / WN) * 32, one = 16 / sizeof(T), MT = WM / 16, NT = WN / 8;
  constexpr int pad = 8;  // elements: no bank twice in a fragment
  constexpr int pa = BM + pad, pb = BN + pad, stage_size = kDeep * (pa + pb);
  constexpr int across_a = BM / one, across_b = BN / one, down_a = threads / across_a, down_b = threads / across_b;
  extern __shared__ __align__(16) unsigned char room_bytes[];
  T* const room = reinterpret_cast<T*>(room_bytes);
  const Filters<T>& f = problems.of[blockIdx.z];
  const int columns = f.kernel * f.kernel * f.depth, tiles = (columns + BN - 1) / BN;
  const int row0 = static_cast<int>(blockIdx.x) / tiles * BM, col0 = static_cast<int>(blockIdx.x) % tiles * BN;
  const int first = static_cast<int>(blockIdx.y) * f.each, last = min(first + f.each, f.places);

  const int a_line = threadIdx.x / across_a, a_at = threadIdx.x % across_a * one;
  const int b_line = threadIdx.x / across_b, b_at = threadIdx.x % across_b * one;
  const bool a_inside = row0 + a_at < f.rows, b_inside = col0 + b_at < columns;
  const int tap = (col0 + b_at) / f.depth, channel = (col0 + b_at) % f.depth;
  const int up = tap / f.kernel - f.padding, left = tap % f.kernel - f.padding;

  const auto load = [&](int stage, int place0) {
    T* const a = room + stage * stage_size;
    T* const b = a + kDeep * pa;
#pragma unroll
    for (int u = 0; u < kDeep / down_a; ++u) {
      const int line = a_line + u * down_a, place = place0 + line;
      const bool inside = a_inside && place < last;
      copy16(a + line * pa + a_at, inside ? f.grad + static_cast<int64_t>(place) * f.rows + row0 + a_at : f.grad, inside);
    }
#pragma unroll
    for (int u = 0; u < kDeep / down_b; ++u) {
      const int line = b_line + u * down_b, place = place0 + line;
      const int image = f.area.of(place), at = place - image * static_cast<int>(f.area.by);
      const int row = f.across.of(at), y = row * f.stride + up;
      const int x = (at - row * static_cast<int>(f.across.by)) * f.stride + left;
      const bool inside = b_inside && place < last && y >= 0 && y < f.height && x >= 0 && x < f.width;
      const int64_t from = (static_cast<int64_t>(image) * f.height + y) * f.width + x;
      copy16(b + line * pb + b_at, inside ? f.images + from * f.depth + channel : f.images, inside);
    }
  };

  float acc[MT][NT][4] = {};
  const int steps = max((last - first + kDeep - 1) / kDeep, 0);
#pragma unroll
  for (int stage = 0; stage < kStages - 1; ++stage) {
    if (stage < steps) load(stage, first + stage * kDeep);
    copies_commit();
  }
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int wm = warp / (BN / WN) * WM, wn = warp % (BN / WN) * WN;
  int read = 0, write = kStages - 1;
  for (int step = 0; step < steps; ++step) {
    copies_wait<kStages - 2>();
    __syncthreads();
    if (step + kStages - 1 < steps) load(write, first + (step + kStages - 1) * kDeep);
    copies_commit();
    const T* const a = room + read * stage_size + wm;
    const T* const b = room + read * stage_size + kDeep * pa + wn;
    if constexpr (sizeof(T) == 2) {
#pragma unroll
      for (int kk = 0; kk < kDeep; kk += 16) {
        unsigned left_part[MT][4];
#pragma unroll
        for (int m = 0; m < MT; ++m)
          ldmatrix4_trans(left_part[m], a + (kk + lane % 8 + lane / 16 * 8) * pa + m * 16 + lane / 8 % 2 * 8);
#pragma unroll
        for (int n = 0; n < NT; n += 2) {
          unsigned right[4];
          ldmatrix4_trans(right, b + (kk + lane % 16) * pb + n * 8 + lane / 16 * 8);
#pragma unroll
          for (int m = 0; m < MT; ++m) {
            mma(acc[m][n], left_part[m], right[0], right[1], T());
            mma(acc[m][n + 1], left_part[m], right[2], right[3], T());
          }
        }
      }
    } else {
      float part[MT][NT][4] = {};
#pragma unroll
      for (int kk = 0; kk < kDeep; kk += 8) {
        unsigned big[MT][4], small[MT][4];
#pragma unroll
        for (int m = 0; m < MT; ++m) {
          const float* const at = a + (kk + t) * pa + m * 16 + g;
          const unsigned both[4] = {__float_as_uint(at[0]), __float_as_uint(at[8]), __float_as_uint(at[4 * pa]),
                                    __float_as_uint(at[4 * pa + 8])};
          split(both, big[m], small[m]);
        }
#pragma unroll
        for (int n = 0; n < NT; ++n) {
          const float* const at = b + (kk + t) * pb + n * 8 + g;
          const unsigned both[2] = {__float_as_uint(at[0]), __float_as_uint(at[4 * pb])};
          unsigned b_big[2], b_small[2];
          split(both, b_big, b_small);
#pragma unroll
          for (int m = 0; m < MT; ++m) mma_tf32(part[m][n], small[m], b_big);
#pragma unroll
          for (int m = 0; m < MT; ++m) mma_tf32(part[m][n], big[m], b_small);
#pragma unroll
          for (int m = 0; m < MT; ++m) mma_tf32(part[m][n], big[m], b_big);
        }
      }
#pragma unroll
      for (int m = 0; m < MT; ++m)
#pragma unroll
        for (int n = 0; n < NT; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i) acc[m][n][i] += part[m][n][i];
    }
    read = read + 1 == kStages ? 0 : read + 1;
    write = write + 1 == kStages ? 0 : write + 1;
  }
#pragma unroll
  for (int m = 0; m < MT; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = row0 + wm + m * 16 + g + half * 8;
      if (row >= f.filters) continue;
      float* const to = f.parts + (static_cast<int64_t>(blockIdx.y) * f.filters + row) * columns;
#pragma unroll
      for (int n = 0; n < NT; ++n) {
        const int col = col0 + wn + n * 8 + t * 2;
        if (col < columns) *reinterpret_cast<float2*>(to + col) = make_float2(acc[m][n][half * 2], acc[m][n][half * 2 + 1]);
      }
    }
}

// Parts of the sum for two rounds of blocks, and the places of each.
struct Cut {
  int parts, each;
};
template <typename T>
Cut cut_of(int filters, int columns, int places, int problems) {
  const int tiles = (filters + 63) / 64 * ((columns + 127) / 128) * problems, wanted = (PART_ROUNDS * 264 + tiles - 1) / tiles;
  const int most = (places + 255) / 256, parts = wanted < 1 ? 1 : wanted < most ? wanted : most;
  const int each = ((places + parts - 1) / parts + kDeep - 1) / kDeep * kDeep;
  return {(places + each - 1) / each, each};
}

template <typename T>
void filter_gradients_any(const Filters<T>& f0, const Filters<T>& f1, int problems, int parts, cudaStream_t stream) {
  constexpr int BM = 64, BN = 128, bytes = filters_bytes<T, BM, BN>();
  const auto kernel = &filter_gradients<T, BM, BN, 64, 32>;
  C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  const int columns = f0.kernel * f0.kernel * f0.depth;
  const int tiles = (f0.filters + BM - 1) / BM * ((columns + BN - 1) / BN);
  kernel<<<dim3(static_cast<unsigned>(tiles), static_cast<unsigned>(parts), static_cast<unsigned>(problems)), 128, bytes,
           stream>>>(Problems<T>{{f0, f1}});
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

// Entry i of the weights' gradient, [filter][channel][tap], from its parts.
template <typename T>
__device__ __forceinline__ void join_parts(const float* parts, int count, T* out, int filters, int channels, int taps,
                                           int depth, int64_t i) {
  if (i >= static_cast<int64_t>(filters) * channels * taps) return;
  const int tap = static_cast<int>(i % taps), channel = static_cast<int>(i / taps % channels);
  const int64_t all = static_cast<int64_t>(filters) * taps * depth;
  const float* at = parts + (i / taps / channels * taps + tap) * depth + channel;
  float sum = 0.0f;
  for (int part = 0; part < count; ++part) sum += at[part * all];
  put(out + i, sum);
}

// The sum of `count` numbers by a block of 256, in its first thread.
__device__ __forceinline__ float sum_of(const float* from, int count) {
  __shared__ float partial[8];
  float sum = 0.0f;
  for (int i = threadIdx.x; i < count; i += 256) sum += from[i];
  for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0.0f;
  for (int i = 0; i < 8; ++i) sum += partial[i];
  return sum;
}

__device__ __forceinline__ float warp_sum(float x) {
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
}

struct Given {
  const float *grad, *out, *conv2, *x, *hidden, *weight1, *weight2, *gamma2, *mean2, *var2;
  float *images, *hiddens, *grads, *weights1, *weights2, *sums;  // sums: [gamma2, beta2][channel][part]
  float eps;
  int channels, area, depth, image_blocks, weight_blocks;
};

// Through the outer ReLU (open where `out` is positive) and the second batch norm, to channels last; both sums of each
// channel over this block's places on the way.
__device__ __forceinline__ void outer_gradient(const Given& v, int block, float (*tile)[65]) {
  const int places = (v.area + 63) / 64, groups = v.depth / 32, parts = v.image_blocks / groups;
  const int place0 = block % places * 64, c0 = block / places % groups * 32;
  const int64_t image = block / places / groups;
  const int part = static_cast<int>(image) * places + block % places;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int c = warp; c < 32; c += 8) {
    const int channel = c0 + c;
    float value[2] = {}, gain = 0.0f, shift = 0.0f;
    if (channel < v.channels) {
      const float rstd = 1.0f / sqrtf(v.var2[channel] + v.eps), middle = v.mean2[channel], scale = v.gamma2[channel] * rstd;
      const int64_t at = (image * v.channels + channel) * v.area + place0;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int p = lane + half * 32;
        if (place0 + p >= v.area) continue;
        const float open = v.out[at + p] > 0.0f ? v.grad[at + p] : 0.0f;
        gain += open * (v.conv2[at + p] - middle) * rstd;
        shift += open;
        value[half] = open * scale;
      }
    }
    tile[c][lane] = value[0];
    tile[c][lane + 32] = value[1];
    gain = warp_sum(gain);
    shift = warp_sum(shift);
    if (lane == 0 && channel < v.channels) {
      v.sums[static_cast<int64_t>(channel) * parts + part] = gain;
      v.sums[(static_cast<int64_t>(v.channels) + channel) * parts + part] = shift;
    }
  }
  __syncthreads();
  for (int p = warp; p < 64 && place0 + p < v.area; p += 8)
    v.grads[(image * v.area + place0 + p) * v.depth + c0 + lane] = tile[lane][p];
}

// Everything that the products read, in one launch.
__global__ __launch_bounds__(256) void prepare(const __grid_constant__ Given v) {
  __shared__ float tile[32][65];
  int block = static_cast<int>(blockIdx.x);
  if (block < v.image_blocks) {
    outer_gradient(v, block, tile);
  } else if ((block -= v.image_blocks) < 2 * v.image_blocks) {
    const bool second = block >= v.image_blocks;
    channels_last(second ? v.hidden : v.x, second ? v.hiddens : v.images, v.channels, v.area, v.depth, block % v.image_blocks,
                  tile);
  } else {
    block -= 2 * v.image_blocks;
    const bool second = block >= v.weight_blocks;
    weights_by_channel(second ? v.weight2 : v.weight1, second ? v.weights2 : v.weights1, v.channels, v.channels, 9, v.depth,
                       block % v.weight_blocks, tile);
  }
}

// The second convolution's input: through the inner ReLU and the first batch norm, channels last, with each channel's
// sums over the warp's 32 places.
struct HiddenGradient : ImagePlaces {
  const float *hidden, *conv1, *gamma, *mean, *var;
  float *grads, *sums;  // sums: [gamma1, beta1][channel][part]
  float eps;
  int depth, parts;
  template <int MT, int NT>
  __device__ __forceinline__ void store(const float (&acc)[MT][NT][4], int row0, int col0, int rows, int columns) const {
    static_assert(NT == 4, "a part has 32 places");
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, area = height * width;
#pragma unroll
    for (int m = 0; m < MT; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = row0 + m * 16 + g + half * 8;
        float gain = 0.0f, shift = 0.0f, rstd = 0.0f, middle = 0.0f, scale = 0.0f;
        if (row < rows) {
          rstd = 1.0f / sqrtf(var[row] + eps);
          middle = mean[row];
          scale = gamma[row] * rstd;
        }
#pragma unroll
        for (int i = 0; i < NT * 2; ++i) {
          const int col = col0 + i / 2 * 8 + t * 2 + i % 2, image = col / area;
          if (col >= columns || row >= depth) continue;
          float open = 0.0f;
          if (row < rows) {
            const int64_t at = (static_cast<int64_t>(image) * rows + row) * area + col - image * area;
            open = hidden[at] > 0.0f ? acc[m][i / 2][half * 2 + i % 2] : 0.0f;
            gain += open * (conv1[at] - middle) * rstd;
            shift += open;
          }
          grads[static_cast<int64_t>(col) * depth + row] = open * scale;
        }
#pragma unroll
        for (int step = 1; step < 4; step *= 2) {
          gain += __shfl_xor_sync(0xffffffffu, gain, step);
          shift += __shfl_xor_sync(0xffffffffu, shift, step);
        }
        if (t == 0 && row < rows && col0 < columns) {
          sums[static_cast<int64_t>(row) * parts + col0 / 32] = gain;
          sums[(static_cast<int64_t>(rows) + row) * parts + col0 / 32] = shift;
        }
      }
  }
};

// The first convolution's input, and the shortcut's part.
struct ImageGradient : ImagePlaces {
  const float *grad, *gate;
  float* out;
  template <int MT, int NT>
  __device__ __forceinline__ void store(const float (&acc)[MT][NT][4], int row0, int col0, int rows, int columns) const {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, area = height * width;
#pragma unroll
    for (int m = 0; m < MT; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = row0 + m * 16 + g + half * 8;
        if (row >= rows) continue;
#pragma unroll
        for (int n = 0; n < NT; ++n) {
          const int col = col0 + n * 8 + t * 2;
          if (area % 2 == 0) {
            if (col >= columns) continue;
            const int image = col / area;
            const int64_t at = (static_cast<int64_t>(image) * rows + row) * area + col - image * area;
            const float2 open = *reinterpret_cast<const float2*>(gate + at), add = *reinterpret_cast<const float2*>(grad + at);
            put2(out + at, acc[m][n][half * 2] + (open.x > 0.0f ? add.x : 0.0f),
                 acc[m][n][half * 2 + 1] + (open.y > 0.0f ? add.y : 0.0f));
          } else {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
              if (col + i >= columns) continue;
              const int image = (col + i) / area;
              const int64_t at = (static_cast<int64_t>(image) * rows + row) * area + col + i - image * area;
              out[at] = acc[m][n][half * 2 + i] + (gate[at] > 0.0f ? grad[at] : 0.0f);
            }
          }
        }
      }
  }
};

struct Results {
  const float *sums1, *sums2, *parts;
  float *gamma1, *beta1, *gamma2, *beta2, *weight1, *weight2;
  int count1, count2, parts_count, channels, depth;
};

// A block for each of the norms' gradients, then the weights' entry by entry.
__global__ __launch_bounds__(256) void finish(const __grid_constant__ Results r) {
  int block = static_cast<int>(blockIdx.x);
  if (block < 4 * r.channels) {
    const int which = block / r.channels, channel = block % r.channels;
    const int count = which < 2 ? r.count1 : r.count2, line = block % (2 * r.channels);
    const float sum = sum_of((which < 2 ? r.sums1 : r.sums2) + static_cast<int64_t>(line) * count, count);
    if (threadIdx.x == 0) (which == 0 ? r.gamma1 : which == 1 ? r.beta1 : which == 2 ? r.gamma2 : r.beta2)[channel] = sum;
    return;
  }
  const int64_t entries = static_cast<int64_t>(r.channels) * r.channels * 9, each = (entries + 255) / 256;
  block -= 4 * r.channels;
  const bool second = block >= each;
  const int64_t all = static_cast<int64_t>(r.parts_count) * r.channels * 9 * r.depth;
  join_parts(r.parts + (second ? all : 0), r.parts_count, second ? r.weight2 : r.weight1, r.channels, r.channels, 9, r.depth,
             (block - (second ? each : 0)) * 256 + threadIdx.x);
}

// ---- few results: a warp each, summed in float64 -----------------------------------------------------------------------
// An error is held against the results' size, and a few of them may all be small beside their terms, of which split TF32
// numbers lose 2^-21.

// At most so many results, or products with no sum longer than SHORT_SUM.
#ifndef FEW_RESULTS
#define FEW_RESULTS 128
#endif
#ifndef SHORT_SUM
#define SHORT_SUM 32
#endif

struct Layer {
  int batch, channels, height, width, filters, kernel, stride, padding, out_height, out_width;
  __host__ __device__ int64_t images() const { return static_cast<int64_t>(batch) * channels * height * width; }
  __host__ __device__ int64_t entries() const { return static_cast<int64_t>(filters) * channels * kernel * kernel; }
  __host__ __device__ int64_t places() const { return static_cast<int64_t>(batch) * out_height * out_width; }
};

inline bool is_few(const Layer& s, int64_t results) {
  const int64_t taps = static_cast<int64_t>(s.kernel) * s.kernel, longest = std::max(s.channels, s.filters) * taps;
  if (s.places() * s.entries() > 1 << 24) return false;
  return results <= FEW_RESULTS || std::max(longest, s.places()) <= SHORT_SUM;
}

__device__ __forceinline__ double warp_total(double x) {
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
}

// Result number `result` of a convolution, in every lane. `from(i, channel)` is element i of the images.
template <typename From>
__device__ __forceinline__ double exact_place(const Layer& s, const From& from, const float* weight, int64_t result) {
  const int taps = s.kernel * s.kernel, x = static_cast<int>(result % s.out_width);
  const int y = static_cast<int>(result / s.out_width % s.out_height);
  const int64_t plane = result / s.out_width / s.out_height, image = plane / s.filters, filter = plane % s.filters;
  double sum = 0.0;
  for (int i = threadIdx.x % 32; i < s.channels * taps; i += 32) {
    const int channel = i / taps, row = y * s.stride - s.padding + i % taps / s.kernel;
    const int col = x * s.stride - s.padding + i % taps % s.kernel;
    if (row < 0 || row >= s.height || col < 0 || col >= s.width) continue;
    const int64_t at = ((image * s.channels + channel) * s.height + row) * s.width + col;
    sum = fma(from(at, channel), static_cast<double>(weight[filter * s.channels * taps + i]), sum);
  }
  return warp_total(sum);
}

// Entry `result` of the images' gradient, in every lane. `grad(i, filter)` is element i of the convolution's gradient.
template <typename Grad>
__device__ __forceinline__ double exact_image(const Layer& s, const Grad& grad, const float* weight, int64_t result) {
  const int taps = s.kernel * s.kernel, col = static_cast<int>(result % s.width);
  const int row = static_cast<int>(result / s.width % s.height);
  const int64_t plane = result / s.width / s.height, image = plane / s.channels, channel = plane % s.channels;
  double sum = 0.0;
  for (int i = threadIdx.x % 32; i < s.filters * taps; i += 32) {
    const int filter = i / taps, tap = i % taps, down = row + s.padding - tap / s.kernel;
    const int right = col + s.padding - tap % s.kernel, y = down / s.stride, x = right / s.stride;
    if (down < 0 || right < 0 || down % s.stride || right % s.stride || y >= s.out_height || x >= s.out_width) continue;
    const int64_t at = ((image * s.filters + filter) * s.out_height + y) * s.out_width + x;
    sum = fma(grad(at, filter), static_cast<double>(weight[(filter * s.channels + channel) * taps + tap]), sum);
  }
  return warp_total(sum);
}

// Entry `result` of the weights' gradient, in every lane.
template <typename Grad, typename From>
__device__ __forceinline__ double exact_weight(const Layer& s, const Grad& grad, const From& from, int64_t result) {
  const int taps = s.kernel * s.kernel, tap = static_cast<int>(result % taps);
  const int channel = static_cast<int>(result / taps % s.channels), filter = static_cast<int>(result / taps / s.channels);
  const int area = s.out_height * s.out_width;
  double sum = 0.0;
  for (int i = threadIdx.x % 32; i < s.places(); i += 32) {
    const int64_t image = i / area;
    const int place = i % area, y = place / s.out_width, x = place % s.out_width;
    const int row = y * s.stride - s.padding + tap / s.kernel, col = x * s.stride - s.padding + tap % s.kernel;
    if (row < 0 || row >= s.height || col < 0 || col >= s.width) continue;
    const double value = from(((image * s.channels + channel) * s.height + row) * s.width + col, channel);
    sum = fma(grad((image * s.filters + filter) * area + place, filter), value, sum);
  }
  return warp_total(sum);
}

// The sum of `grad` over all places of a filter, in every lane.
template <typename Grad>
__device__ __forceinline__ double exact_bias(const Layer& s, const Grad& grad, int64_t filter) {
  const int area = s.out_height * s.out_width;
  double sum = 0.0;
  for (int i = threadIdx.x % 32; i < s.places(); i += 32)
    sum += grad((i / area * s.filters + filter) * area + i % area, static_cast<int>(filter));
  return warp_total(sum);
}

// What was saved is rounded, and the norms' gradients may be small beside their terms: convolutions are made again.
struct Exact {
  const float *grad, *out, *x, *hidden, *weight1, *weight2, *gamma1, *beta1, *mean1, *var1, *gamma2, *mean2, *var2;
  double *conv1, *conv2, *inner;  // the last: the gradient at the inner ReLU's input
  float *to_x, *to_weight1, *to_gamma1, *to_beta1, *to_weight2, *to_gamma2, *to_beta2;
  double eps;
  Layer s;
  __device__ double opened(int64_t i) const { return out[i] > 0.0f ? grad[i] : 0.0; }
  __device__ double normed1(int64_t i, int c) const { return (conv1[i] - mean1[c]) / sqrt(var1[c] + eps); }
  __device__ double normed2(int64_t i, int c) const { return (conv2[i] - mean2[c]) / sqrt(var2[c] + eps); }
  __device__ double between(int64_t i, int c) const { return hidden[i] > 0.0f ? normed1(i, c) * gamma1[c] + beta1[c] : 0.0; }
  __device__ double grad2(int64_t i, int channel) const { return opened(i) * gamma2[channel] / sqrt(var2[channel] + eps); }
  __device__ double grad1(int64_t i, int channel) const { return inner[i] * gamma1[channel] / sqrt(var1[channel] + eps); }
};

__global__ __launch_bounds__(256) void first_exactly(const __grid_constant__ Exact v) {
  const int64_t result = static_cast<int64_t>(blockIdx.x) * 8 + threadIdx.x / 32;
  if (result >= v.s.images()) return;
  const double sum = exact_place(v.s, [&](int64_t i, int) { return static_cast<double>(v.x[i]); }, v.weight1, result);
  if (threadIdx.x % 32 == 0) v.conv1[result] = sum;
}

__global__ __launch_bounds__(256) void inner_exactly(const __grid_constant__ Exact v) {
  const int64_t result = static_cast<int64_t>(blockIdx.x) * 8 + threadIdx.x / 32;
  if (result >= v.s.images()) return;
  const double sum = exact_image(v.s, [&](int64_t i, int c) { return v.grad2(i, c); }, v.weight2, result);
  const double conv2 = exact_place(v.s, [&](int64_t i, int c) { return v.between(i, c); }, v.weight2, result);
  if (threadIdx.x % 32) return;
  v.inner[result] = v.hidden[result] > 0.0f ? sum : 0.0;
  v.conv2[result] = conv2;
}

// All that follows.
__global__ __launch_bounds__(256) void gradients_exactly(const __grid_constant__ Exact v) {
  const Layer& s = v.s;
  int64_t result = static_cast<int64_t>(blockIdx.x) * 8 + threadIdx.x / 32;
  const auto grad1 = [&](int64_t i, int c) { return v.grad1(i, c); };
  const auto grad2 = [&](int64_t i, int c) { return v.grad2(i, c); };
  double sum;
  float* to;
  if (result < s.images()) {
    sum = exact_image(s, grad1, v.weight1, result) + v.opened(result);
    to = v.to_x;
  } else if ((result -= s.images()) < s.entries()) {
    sum = exact_weight(s, grad1, [&](int64_t i, int) { return static_cast<double>(v.x[i]); }, result);
    to = v.to_weight1;
  } else if ((result -= s.entries()) < s.entries()) {
    sum = exact_weight(s, grad2, [&](int64_t i, int c) { return v.between(i, c); }, result);
    to = v.to_weight2;
  } else if ((result -= s.entries()) < s.channels) {
    sum = exact_bias(s, [&](int64_t i, int c) { return v.inner[i] * v.normed1(i, c); }, result);
    to = v.to_gamma1;
  } else if ((result -= s.channels) < s.channels) {
    sum = exact_bias(s, [&](int64_t i, int) { return v.inner[i]; }, result);
    to = v.to_beta1;
  } else if ((result -= s.channels) < s.channels) {
    sum = exact_bias(s, [&](int64_t i, int c) { return v.opened(i) * v.normed2(i, c); }, result);
    to = v.to_gamma2;
  } else if ((result -= s.channels) < s.channels) {
    sum = exact_bias(s, [&](int64_t i, int) { return v.opened(i); }, result);
    to = v.to_beta2;
  } else {
    return;
  }
  if (threadIdx.x % 32 == 0) to[result] = static_cast<float>(sum);
}

}  // namespace

std::vector<torch::Tensor> backward(torch::Tensor grad_out, torch::Tensor x, torch::Tensor weight1,
                                    torch::Tensor gamma1, torch::Tensor beta1, torch::Tensor weight2,
                                    torch::Tensor gamma2, torch::Tensor beta2, torch::Tensor mean1, torch::Tensor var1,
                                    torch::Tensor mean2, torch::Tensor var2, double eps, torch::Tensor conv1,
                                    torch::Tensor hidden, torch::Tensor conv2, torch::Tensor out) {
  TORCH_CHECK(grad_out.is_contiguous() && x.is_contiguous() && weight1.is_contiguous(), "tensors must be contiguous");
  TORCH_CHECK(weight2.is_contiguous() && conv1.is_contiguous() && hidden.is_contiguous(), "tensors must be contiguous");
  TORCH_CHECK(conv2.is_contiguous() && out.is_contiguous(), "tensors must be contiguous");
  const int batch = static_cast<int>(x.size(0)), channels = static_cast<int>(x.size(1));
  const int height = static_cast<int>(x.size(2)), width = static_cast<int>(x.size(3));
  const int depth = padded<float>(channels), area = height * width, places = batch * area;
  const int image_blocks = channels_last_blocks(batch, area, depth);
  const int weight_blocks = weights_by_channel_blocks(channels, 9, depth);
  const int count2 = image_blocks / (depth / 32), count1 = (places + 31) / 32;
  const Cut cut = cut_of<float>(channels, 9 * depth, places, 2);
  const int64_t plane = static_cast<int64_t>(places) * depth, by = static_cast<int64_t>(channels) * 9 * depth;

  auto grad_x = torch::empty_like(x);
  auto grad_weight1 = torch::empty_like(weight1), grad_weight2 = torch::empty_like(weight2);
  auto grad_gamma1 = torch::empty_like(gamma1), grad_gamma2 = torch::empty_like(gamma2);
  auto grad_beta1 = torch::empty_like(beta1), grad_beta2 = torch::empty_like(beta2);
  const Layer layer = {batch, channels, height, width, channels, 3, 1, 1, height, width};
  if (is_few(layer, std::min(layer.images(), layer.entries()))) {
    const auto in = [](const torch::Tensor& tensor) { return tensor.data_ptr<float>(); };
    auto exact = torch::empty({3, layer.images()}, x.options().dtype(torch::kFloat64));
    double *const first = exact.data_ptr<double>(), *const second = first + layer.images(), *const inner = second + layer.images();
    const Exact v = {in(grad_out), in(out), in(x), in(hidden), in(weight1), in(weight2), in(gamma1), in(beta1), in(mean1),
                     in(var1), in(gamma2), in(mean2), in(var2), first, second, inner, in(grad_x), in(grad_weight1),
                     in(grad_gamma1), in(grad_beta1), in(grad_weight2), in(grad_gamma2), in(grad_beta2), eps, layer};
    const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
    const auto blocks = static_cast<unsigned>((layer.images() + 7) / 8);
    first_exactly<<<blocks, 256, 0, stream>>>(v);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    inner_exactly<<<blocks, 256, 0, stream>>>(v);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    const int64_t results = layer.images() + 2 * layer.entries() + 4 * channels;
    gradients_exactly<<<static_cast<unsigned>((results + 7) / 8), 256, 0, stream>>>(v);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return {grad_x, grad_weight1, grad_gamma1, grad_beta1, grad_weight2, grad_gamma2, grad_beta2};
  }
  auto images = torch::empty({4, plane}, x.options()), weights = torch::empty({2, by}, x.options());
  auto parts = torch::empty({2, cut.parts, by}, x.options()), sums = torch::empty({2 * channels, count1 + count2}, x.options());
  float *const last = images.data_ptr<float>(), *const hiddens = last + plane, *const grads2 = hiddens + plane;
  float *const grads1 = grads2 + plane, *const by1 = weights.data_ptr<float>(), *const by2 = by1 + by;
  float *const sums1 = sums.data_ptr<float>(), *const sums2 = sums1 + static_cast<int64_t>(2) * channels * count1;
  float* const parts1 = parts.data_ptr<float>();
  const auto at = [](const torch::Tensor& tensor) { return tensor.data_ptr<float>(); };
  const float rounding = static_cast<float>(eps);
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();

  const Given given = {at(grad_out), at(out), at(conv2), at(x), at(hidden), at(weight1), at(weight2), at(gamma2), at(mean2),
                       at(var2), last, hiddens, grads2, by1, by2, sums2, rounding, channels, area, depth, image_blocks,
                       weight_blocks};
  prepare<<<static_cast<unsigned>(3 * image_blocks + 2 * weight_blocks), 256, 0, stream>>>(given);
  C10_CUDA_KERNEL_LAUNCH_CHECK();

  const Source source = {height, width, depth, 3};
  const ImagePlaces all = {batch, height, width, 3, 1, 1};
  const HiddenGradient inner = {all, at(hidden), at(conv1), at(gamma1), at(mean1), at(var1), grads1, sums1, rounding, depth,
                                count1};
  const ImageGradient outer = {all, at(grad_out), at(out), at(grad_x)};
  conv_any<float>(by2, grads2, source, inner, channels, places, 1, stream);
  conv_any<float>(by1, grads1, source, outer, channels, places, 1, stream);

  const Divider by_area(static_cast<unsigned>(area)), by_width(static_cast<unsigned>(width));
  const auto problem = [&](const float* grads, const float* inputs, float* to) {
    return Filters<float>{grads, inputs, to, channels, depth, depth, 3, 1, 1, height, width, places, cut.each, by_area, by_width};
  };
  filter_gradients_any<float>(problem(grads1, last, parts1), problem(grads2, hiddens, parts1 + cut.parts * by), 2, cut.parts,
                              stream);
  const int64_t each = (static_cast<int64_t>(channels) * channels * 9 + 255) / 256;
  const Results results = {sums1, sums2, parts1, at(grad_gamma1), at(grad_beta1), at(grad_gamma2), at(grad_beta2),
                           at(grad_weight1), at(grad_weight2), count1, count2, cut.parts, channels, depth};
  finish<<<static_cast<unsigned>(4 * channels + 2 * each), 256, 0, stream>>>(results);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {grad_x, grad_weight1, grad_gamma1, grad_beta1, grad_weight2, grad_gamma2, grad_beta2};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }

// Gradients of convolution, ReLU and 2 by 2 max pooling as implicit products on tensor cores (float32 by three TF32 products
// of split numbers, summed in float32): layouts with the pooling undone, the image's gradient, the weights' gradient in
// parts, and what joins parts. Few channels and small images: a block an image, only at the winners of the pooling.
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

// Up to so many channels a block has an image and visits winners only (at most 4).
#ifndef DIRECT_CHANNELS
#define DIRECT_CHANNELS 4
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
  const float *x, *grad, *out, *weight;
  const int64_t* indices;
  float *images, *grads, *weights, *bias_parts;  // bias_parts: [filter][part]
  int channels, area, depth, filters, rows, taps;
  int high, wide, down, across;  // of the convolution's result, and windows
  int image_blocks, grad_blocks;
};

// The gradient of the convolution's result, channels last: each window's at its winner where ReLU is open, else zero.
// A block has 32 filters and 64 cells of 2 by 2 (a last odd line or column is half a cell, and in no window).
__device__ __forceinline__ void unpool(const Given& v, int block, float (*tile)[65], unsigned char (*winner)[64]) {
  const int cells_across = (v.wide + 1) / 2, cells = (v.high + 1) / 2 * cells_across, places = (cells + 63) / 64;
  const int groups = v.rows / 32, parts = v.grad_blocks / groups;
  const int cell0 = block % places * 64, f0 = block / places % groups * 32;
  const int64_t image = block / places / groups;
  const int part = static_cast<int>(image) * places + block % places;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int f = warp; f < 32; f += 8) {
    float sum = 0.0f;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int p = lane + half * 32, cy = (cell0 + p) / cells_across, cx = (cell0 + p) % cells_across;
      float value = 0.0f;
      int place = 0;
      if (f0 + f < v.filters && cy < v.down && cx < v.across) {
        const int64_t at = ((image * v.filters + f0 + f) * v.down + cy) * v.across + cx;
        if (v.out[at] > 0.0f) value = v.grad[at];
        const int from = static_cast<int>(v.indices[at]) - (2 * cy * v.wide + 2 * cx);
        place = from >= v.wide ? 2 + (from - v.wide) : from;
      }
      tile[f][p] = value;
      winner[f][p] = static_cast<unsigned char>(place);
      sum += value;
    }
    sum = warp_sum(sum);
    if (lane == 0 && f0 + f < v.filters) v.bias_parts[static_cast<int64_t>(f0 + f) * parts + part] = sum;
  }
  __syncthreads();
  for (int p = warp; p < 64 && cell0 + p < cells; p += 8) {
    const int y = (cell0 + p) / cells_across * 2, x = (cell0 + p) % cells_across * 2;
    const float value = tile[lane][p];
    const int place = winner[lane][p];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (y + i / 2 < v.high && x + i % 2 < v.wide)
        v.grads[((image * v.high + y + i / 2) * v.wide + x + i % 2) * v.rows + f0 + lane] = place == i ? value : 0.0f;
  }
}

__global__ __launch_bounds__(256) void prepare(const __grid_constant__ Given v) {
  __shared__ float tile[32][65];
  __shared__ unsigned char winner[32][64];
  int block = static_cast<int>(blockIdx.x);
  if (block < v.image_blocks)
    channels_last(v.x, v.images, v.channels, v.area, v.depth, block, tile);
  else if ((block -= v.image_blocks) < v.grad_blocks)
    unpool(v, block, tile, winner);
  else
    weights_by_channel(v.weight, v.weights, v.filters, v.channels, v.taps, v.rows, block - v.grad_blocks, tile);
}

struct ImageGradient : ImagePlaces {
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
          const int col = col0 + n * 8 + t * 2, image = col / area, at = col - image * area;
          if (col >= columns) continue;
          float* const to = out + (static_cast<int64_t>(image) * rows + row) * area + at;
          if (area % 2 == 0) {
            put2(to, acc[m][n][half * 2], acc[m][n][half * 2 + 1]);
          } else {
            *to = acc[m][n][half * 2];
            if (col + 1 < columns)
              *(at + 1 < area ? to + 1 : out + (static_cast<int64_t>(image + 1) * rows + row) * area) = acc[m][n][half * 2 + 1];
          }
        }
      }
  }
};

// A block for each filter's bias, then the weights' entry by entry.
__global__ __launch_bounds__(256) void finish(const float* parts, int count, float* grad_weight, const float* bias_parts,
                                              int bias_count, float* grad_bias, int filters, int channels, int taps,
                                              int depth) {
  const int block = static_cast<int>(blockIdx.x);
  if (block < filters) {
    const float sum = sum_of(bias_parts + static_cast<int64_t>(block) * bias_count, bias_count);
    if (threadIdx.x == 0) grad_bias[block] = sum;
  } else {
    join_parts(parts, count, grad_weight, filters, channels, taps, depth, (block - filters) * 256ll + threadIdx.x);
  }
}

// ---- few channels, 3 by 3: a block has an image. Its winners, `together` filters at a time, are in shared memory. -------

constexpr int kDirect = 512;

struct Small {
  const float *grad, *out, *x, *weight;
  const int64_t* indices;
  float *grad_x, *parts;  // parts: [weights' entries, then filters][image]
  int batch, filters, height, width, padding, wide, down, across, together;
};

template <int C>
__global__ __launch_bounds__(kDirect) void direct(const __grid_constant__ Small v) {
  extern __shared__ __align__(16) unsigned char room[];
  const int area = v.height * v.width, windows = v.down * v.across, pitch = v.width + 2 * v.padding;
  const int framed = (v.height + 2 * v.padding) * pitch, image = static_cast<int>(blockIdx.x);
  float* const xs = reinterpret_cast<float*>(room);  // framed by zeros
  float* const sums = xs + C * framed;               // the image's gradient so far
  float* const by = sums + C * area;
  float* const values = by + v.filters * C * 9;
  unsigned* const winners = reinterpret_cast<unsigned*>(values + v.together * windows);  // (row, column)
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;

  for (int i = threadIdx.x; i < C * framed; i += kDirect) {
    const int c = i / framed, y = i % framed / pitch - v.padding, x = i % pitch - v.padding;
    const bool inside = y >= 0 && y < v.height && x >= 0 && x < v.width;
    xs[c * framed + i % framed] =
        inside ? v.x[(static_cast<int64_t>(image) * C + c) * area + y * v.width + x] : 0.0f;
  }
  for (int i = threadIdx.x; i < C * area; i += kDirect) sums[i] = 0.0f;
  for (int i = threadIdx.x; i < v.filters * C * 9; i += kDirect) by[i] = v.weight[i];

  for (int f0 = 0; f0 < v.filters; f0 += v.together) {
    const int mine = min(v.together, v.filters - f0);
    __syncthreads();  // winners before these are no longer read
    for (int i = threadIdx.x; i < mine * windows; i += kDirect) {
      const int64_t at = (static_cast<int64_t>(image) * v.filters + f0) * windows + i;
      const int place = static_cast<int>(v.indices[at]);
      values[i] = v.out[at] > 0.0f ? v.grad[at] : 0.0f;
      winners[i] = static_cast<unsigned>(place / v.wide) << 16 | static_cast<unsigned>(place % v.wide);
    }
    __syncthreads();

    // The image: each place looks at the windows whose winners may reach it.
    for (int p = threadIdx.x; p < area; p += kDirect) {
      const int y = p / v.width + v.padding, x = p % v.width + v.padding;
      float sum[C] = {};
      for (int cy = max((y - 2) / 2, 0); cy <= min(y / 2, v.down - 1); ++cy)
        for (int cx = max((x - 2) / 2, 0); cx <= min(x / 2, v.across - 1); ++cx) {
          const int window = cy * v.across + cx;
#pragma unroll 4
          for (int f = 0; f < mine; ++f) {
            const unsigned at = winners[f * windows + window];
            const int r = y - static_cast<int>(at >> 16), q = x - static_cast<int>(at & 0xffffu);
            if (r < 0 || r > 2 || q < 0 || q > 2) continue;
            const float value = values[f * windows + window];
#pragma unroll
            for (int c = 0; c < C; ++c) sum[c] = fmaf(value, by[((f0 + f) * C + c) * 9 + r * 3 + q], sum[c]);
          }
        }
#pragma unroll
      for (int c = 0; c < C; ++c) sums[c * area + p] += sum[c];
    }

    // The weights: a warp has a filter, its lanes the windows.
    for (int f = warp; f < mine; f += kDirect / 32) {
      float sum[C * 9] = {}, all = 0.0f;
      for (int i = lane; i < windows; i += 32) {
        const float value = values[f * windows + i];
        const unsigned at = winners[f * windows + i];
        const float* const from = xs + (at >> 16) * pitch + (at & 0xffffu);
        all += value;
#pragma unroll
        for (int e = 0; e < C * 9; ++e)
          sum[e] = fmaf(value, from[e / 9 * framed + e % 9 / 3 * pitch + e % 3], sum[e]);
      }
#pragma unroll
      for (int e = 0; e < C * 9; ++e) {
        const float joined = warp_sum(sum[e]);
        if (lane == 0) v.parts[(static_cast<int64_t>(f0 + f) * C * 9 + e) * v.batch + image] = joined;
      }
      all = warp_sum(all);
      if (lane == 0) v.parts[(static_cast<int64_t>(v.filters) * C * 9 + f0 + f) * v.batch + image] = all;
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < C * area; i += kDirect)
    v.grad_x[static_cast<int64_t>(image) * C * area + i] = sums[i];
}

// One warp an entry: the sum over images.
__global__ __launch_bounds__(256) void join_images(const float* parts, float* grad_weight, float* grad_bias, int entries,
                                                   int filters, int batch) {
  const int entry = static_cast<int>(blockIdx.x) * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (entry >= entries + filters) return;
  float sum = 0.0f;
  for (int i = lane; i < batch; i += 32) sum += parts[static_cast<int64_t>(entry) * batch + i];
  sum = warp_sum(sum);
  if (lane == 0) (entry < entries ? grad_weight + entry : grad_bias + entry - entries)[0] = sum;
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
template <typename Grad>
__device__ __forceinline__ double exact_weight(const Layer& s, const Grad& grad, const float* images, int64_t result) {
  const int taps = s.kernel * s.kernel, tap = static_cast<int>(result % taps);
  const int channel = static_cast<int>(result / taps % s.channels), filter = static_cast<int>(result / taps / s.channels);
  const int area = s.out_height * s.out_width;
  double sum = 0.0;
  for (int i = threadIdx.x % 32; i < s.places(); i += 32) {
    const int64_t image = i / area;
    const int place = i % area, y = place / s.out_width, x = place % s.out_width;
    const int row = y * s.stride - s.padding + tap / s.kernel, col = x * s.stride - s.padding + tap % s.kernel;
    if (row < 0 || row >= s.height || col < 0 || col >= s.width) continue;
    const double value = images[((image * s.channels + channel) * s.height + row) * s.width + col];
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

// All three gradients; `grad` as above.
template <typename Grad>
__global__ __launch_bounds__(256) void gradients_exactly(Grad grad, const float* x, const float* weight, float* grad_x,
                                                         float* grad_weight, float* grad_bias, Layer s) {
  int64_t result = static_cast<int64_t>(blockIdx.x) * 8 + threadIdx.x / 32;
  const bool first = threadIdx.x % 32 == 0;
  if (result < s.images()) {
    const double sum = exact_image(s, grad, weight, result);
    if (first) grad_x[result] = static_cast<float>(sum);
  } else if ((result -= s.images()) < s.entries()) {
    const double sum = exact_weight(s, grad, x, result);
    if (first) grad_weight[result] = static_cast<float>(sum);
  } else if ((result -= s.entries()) < s.filters) {
    const double sum = exact_bias(s, grad, result);
    if (first) grad_bias[result] = static_cast<float>(sum);
  }
}

// The convolution's gradient: the window's, where the place has won it and the gate is open.
struct Won {
  const float *grad, *out;
  const int64_t* indices;
  int high, wide, down, across;
  __device__ double operator()(int64_t i, int) const {
    const int x = static_cast<int>(i % wide), y = static_cast<int>(i / wide % high);
    if (y / 2 >= down || x / 2 >= across) return 0.0;
    const int64_t at = (i / wide / high * down + y / 2) * across + x / 2;
    return out[at] > 0.0f && indices[at] == static_cast<int64_t>(y) * wide + x ? grad[at] : 0.0;
  }
};

}  // namespace

std::vector<torch::Tensor> backward(torch::Tensor grad_out, torch::Tensor x, torch::Tensor weight, torch::Tensor bias,
                                    int64_t padding, torch::Tensor out, torch::Tensor indices) {
  TORCH_CHECK(grad_out.is_contiguous() && x.is_contiguous() && weight.is_contiguous(), "tensors must be contiguous");
  TORCH_CHECK(out.is_contiguous() && indices.is_contiguous(), "out and indices must be contiguous");
  const int batch = static_cast<int>(x.size(0)), channels = static_cast<int>(x.size(1)), pad = static_cast<int>(padding);
  const int height = static_cast<int>(x.size(2)), width = static_cast<int>(x.size(3)), area = height * width;
  const int filters = static_cast<int>(weight.size(0)), kernel = static_cast<int>(weight.size(2)), taps = kernel * kernel;
  const int high = height + 2 * pad - kernel + 1, wide = width + 2 * pad - kernel + 1;
  const int down = static_cast<int>(out.size(2)), across = static_cast<int>(out.size(3)), windows = down * across;
  auto grad_x = torch::empty_like(x), grad_weight = torch::empty_like(weight), grad_bias = torch::empty_like(bias);
  const auto at = [](const torch::Tensor& tensor) { return tensor.data_ptr<float>(); };
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();

  const Layer layer = {batch, channels, height, width, filters, kernel, 1, pad, high, wide};
  if (is_few(layer, std::min(layer.images(), layer.entries()))) {
    const Won won = {at(grad_out), at(out), indices.data_ptr<int64_t>(), high, wide, down, across};
    const auto blocks = static_cast<unsigned>((layer.images() + layer.entries() + filters + 7) / 8);
    gradients_exactly<<<blocks, 256, 0, stream>>>(won, at(x), at(weight), at(grad_x), at(grad_weight), at(grad_bias), layer);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return {grad_x, grad_weight, grad_bias};
  }

  // Shared memory of the way for few channels; the rest goes to as many filters' winners as fit.
  const int64_t kept = 4ll * (channels * ((height + 2 * pad) * (width + 2 * pad) + area) + filters * channels * 9);
  const int64_t spare = 200 * 1024 - kept, fit = windows > 0 ? spare / (8 * windows) : 0;
  if (channels <= DIRECT_CHANNELS && channels <= 4 && kernel == 3 && fit >= 4) {
    const int together = static_cast<int>(fit < filters ? fit : filters);
    const int entries = filters * channels * 9;
    auto parts = torch::empty({entries + filters, batch}, x.options());
    const Small small = {at(grad_out), at(out), at(x), at(weight), indices.data_ptr<int64_t>(), at(grad_x), at(parts), batch,
                         filters, height, width, pad, wide, down, across, together};
    const auto run = channels == 1 ? &direct<1> : channels == 2 ? &direct<2> : channels == 3 ? &direct<3> : &direct<4>;
    const int bytes = static_cast<int>(kept + 8ll * windows * together);
    C10_CUDA_CHECK(cudaFuncSetAttribute(run, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    run<<<static_cast<unsigned>(batch), kDirect, bytes, stream>>>(small);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    join_images<<<static_cast<unsigned>((entries + filters + 7) / 8), 256, 0, stream>>>(at(parts), at(grad_weight),
                                                                                      at(grad_bias), entries, filters, batch);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return {grad_x, grad_weight, grad_bias};
  }

  const int depth = padded<float>(channels), rows = padded<float>(filters), places = batch * high * wide;
  const int cells = (high + 1) / 2 * ((wide + 1) / 2);
  const int image_blocks = channels_last_blocks(batch, area, depth), grad_blocks = channels_last_blocks(batch, cells, rows);
  const int bias_count = grad_blocks / (rows / 32);
  const Cut cut = cut_of<float>(filters, taps * depth, places, 1);
  auto images = torch::empty({static_cast<int64_t>(batch) * area, depth}, x.options());
  auto grads = torch::empty({places, rows}, x.options());
  auto weights = torch::empty({static_cast<int64_t>(channels) * taps, rows}, x.options());
  auto parts = torch::empty({cut.parts, static_cast<int64_t>(filters) * taps * depth}, x.options());
  auto bias_parts = torch::empty({filters, bias_count}, x.options());

  const Given given = {at(x), at(grad_out), at(out), at(weight), indices.data_ptr<int64_t>(), at(images), at(grads), at(weights),
                       at(bias_parts), channels, area, depth, filters, rows, taps, high, wide, down, across, image_blocks,
                       grad_blocks};
  prepare<<<static_cast<unsigned>(image_blocks + grad_blocks + weights_by_channel_blocks(channels, taps, rows)), 256, 0,
            stream>>>(given);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  const ImageGradient job = {{batch, height, width, kernel, 1, pad}, at(grad_x)};
  conv_any<float>(at(weights), at(grads), {high, wide, rows, kernel}, job, channels, batch * area, 1, stream);
  const Filters<float> f = {at(grads), at(images), at(parts), filters, rows, depth, kernel, 1, pad, height, width, places,
                            cut.each, Divider(static_cast<unsigned>(high * wide)), Divider(static_cast<unsigned>(wide))};
  filter_gradients_any<float>(f, f, 1, cut.parts, stream);
  const int64_t entries = static_cast<int64_t>(filters) * channels * taps;
  finish<<<static_cast<unsigned>(filters + (entries + 255) / 256), 256, 0, stream>>>(
      at(parts), cut.parts, at(grad_weight), at(bias_parts), bias_count, at(grad_bias), filters, channels, taps, depth);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {grad_x, grad_weight, grad_bias};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }

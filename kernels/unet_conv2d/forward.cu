// Convolution with bias as an implicit product on tensor cores. One launch puts images (channels last) and weights into
// the layout that copies 16 bytes at a time; the other multiplies, fed by asynchronous copies several steps ahead.
// float16 by warp groups (small ones by m16n8k16), float32 by three TF32 products of
// split numbers with float32 sums outside the tensor core.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <cuda_fp16.h>
#include <torch/extension.h>
#include <warpsmith/tensor_map.h>

#include <algorithm>

// Steps that are on their way to shared memory or in it.
#ifndef STAGES
#define STAGES 3
#endif
// Tile of a block, filters by places: 0: 128 by 128, 1: 64 by 128, 2: 64 by 64, 3: 64 by 32, -1: by the shape.
#ifndef TILES
#define TILES -1
#endif

// 1: large products of float16 by warp groups (wgmma, TMA); 0: all by mma.sync.
// tune: STRATEGY = 1 [0, 1]
#ifndef STRATEGY
#define STRATEGY 1
#endif
// Rows of a warp groups' tile, 128 or 256; 0: by the shape.
// tune: ROWS = 0 [0, 128, 256]
#ifndef ROWS
#define ROWS 0
#endif
// 1: where tiles of 256 rows are too few for all multiprocessors, two blocks share one. 0: tiles of 128 rows then.
#ifndef PAIRS
#define PAIRS 1
#endif
// 1: where sums are short and tiles of 128 rows many, the two warp groups take turns with them.
// tune: TURNS = 1 [0, 1]
#ifndef TURNS
#define TURNS 1
#endif
// How many steps (of 64 products) are short.
#ifndef TURN_STEPS
#define TURN_STEPS 24
#endif
// Pairs pay from so many steps (of 64 products) on.
#ifndef PAIR_STEPS
#define PAIR_STEPS 64
#endif
// From how many products on (a power of two) warp groups take them.
#ifndef GROUP_WORK
#define GROUP_WORK 29
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
__device__ __forceinline__ void mma(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, __half) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
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

// A small tile has little to do in a step, so that more of them must be on their way.
template <int BM, int BN>
constexpr int kDepth = BM * BN <= 2048 ? 6 : kStages;

template <typename T, int BM, int BN, int WM, int WN>
constexpr int conv_bytes() {
  return kDepth<BM, BN> * (BM + BN) * kPitch;
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
  constexpr int MT = WM / 16, NT = WN / 8, stages = kDepth<BM, BN>;
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
  for (int stage = 0; stage < stages - 1; ++stage) {
    if (stage < steps) load(stage);
    copies_commit();
  }
  const int warp = threadIdx.x / 32, wm = warp / (BN / WN) * WM, wn = warp % (BN / WN) * WN;
  int read = 0, write = stages - 1;
  for (int step = 0; step < steps; ++step) {
    copies_wait<stages - 2>();
    __syncthreads();
    if (step + stages - 1 < steps) load(write);
    copies_commit();
    const unsigned char* const a = room + read * (BM + BN) * kPitch;
    multiply<MT, NT>(acc, a + wm * kPitch, a + (BM + wn) * kPitch, T());
    read = read + 1 == stages ? 0 : read + 1;
    write = write + 1 == stages ? 0 : write + 1;
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
  const int least = ((rows + 63) / 64) * ((columns + 63) / 64) * classes;
  const int choice = TILES >= 0 ? TILES : least < 132 ? 3 : wide <= flat && wide <= small ? 0 : flat <= small ? 1 : 2;
  if (choice == 0)
    conv_launch<T, 128, 128, 64, 32>(weights, source, s, job, rows, columns, classes, stream);
  else if (choice == 1)
    conv_launch<T, 64, 128, 64, 32>(weights, source, s, job, rows, columns, classes, stream);
  else if (choice == 2)
    conv_launch<T, 64, 64, 32, 32>(weights, source, s, job, rows, columns, classes, stream);
  else  // few places: all multiprocessors get some
    conv_launch<T, 64, 32, 32, 16>(weights, source, s, job, rows, columns, classes, stream);
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

// Both layouts in one launch: the first blocks have images, the others weights.
template <typename T>
__global__ __launch_bounds__(256) void prepare(const T* x, T* images, const T* weight, T* weights, int channels, int area,
                                               int depth, int filters, int taps, int image_blocks) {
  __shared__ float tile[32][65];
  const int block = static_cast<int>(blockIdx.x);
  if (block < image_blocks)
    channels_last(x, images, channels, area, depth, block, tile);
  else
    weights_by_row(weight, weights, filters, channels, taps, depth, block - image_blocks);
}

template <typename T>
struct Output : Dense {
  Taps window;
  const T* bias;
  T* out;
  __device__ __forceinline__ Taps taps() const { return window; }

  template <int MT, int NT>
  __device__ __forceinline__ void store(const float (&acc)[MT][NT][4], int row0, int col0, int rows, int columns) const {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, area = height * width;
#pragma unroll
    for (int m = 0; m < MT; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = row0 + m * 16 + g + half * 8;
        if (row >= rows) continue;
        const float shift = to_float(bias[row]);
#pragma unroll
        for (int n = 0; n < NT; ++n) {
          const int col = col0 + n * 8 + t * 2, image = col / area, at = col - image * area;
          if (col >= columns) continue;
          T* const to = out + (static_cast<int64_t>(image) * rows + row) * area + at;
          const float a = acc[m][n][half * 2] + shift, b = acc[m][n][half * 2 + 1] + shift;
          if (area % 2 == 0) {
            put2(to, a, b);
          } else {
            put(to, a);
            if (col + 1 < columns) put(at + 1 < area ? to + 1 : out + (static_cast<int64_t>(image + 1) * rows + row) * area, b);
          }
        }
      }
  }
};

// ---- large products of float16 by warp groups: one thread has the copy engine fill a ring of tiles in shared memory, two
// groups of four warps multiply from it. A tile has `Rows` rows and 160 columns: 320, 640, 960 and 1280 channels are whole
// numbers of it, and the tiles of usual shapes fill 132 multiprocessors to 97 %. Operands are as the copy engine writes
// them with its 128-byte swizzle: k-major ones as rows of 64 k's, others as boxes of 64 lines (k's) of 64 rows or columns.
#if STRATEGY == 1

constexpr int kColumns = 160;
constexpr int kProcessors = 132;  // of an H200; only a hint

// d (64 × 160) = a (64 × 16) · b (16 × 160), added to what d was where `keep` is not 0; AK, BK: operands are k-major.
template <bool AK, bool BK>
__device__ __forceinline__ void multiply_group(float (&d)[kColumns / 2], uint64_t a, uint64_t b, int keep) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %82, 0; wgmma.mma_async.sync.aligned.m64n160k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "
      "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, "
      "%40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, "
      "%60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
      "}, %80, %81, p, 1, 1, %83, %84; }"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
        "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
        "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
        "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
        "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
        "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
        "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]),
        "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]),
        "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79])
      : "l"(a), "l"(b), "r"(keep), "n"(!AK), "n"(!BK));
}

__device__ __forceinline__ void sums_ready() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void close_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int Left>
__device__ __forceinline__ void wait_groups() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Left) : "memory");
}

// What wgmma is told of a tile: its address, 128-byte swizzle, 1024 bytes from eight rows (k-major) or eight k's to the
// next eight, and where the next 64 rows or columns are.
__device__ __forceinline__ uint64_t tile_at(uint32_t address) {
  return static_cast<uint64_t>(address >> 4 & 0x3fff) | static_cast<uint64_t>(8192 >> 4) << 16 |
         static_cast<uint64_t>(1024 >> 4) << 32 | 1ull << 62;
}

// Where a box begins, innermost axis first. What lies outside of the tensor arrives as zeros: that pads images.
struct Corner {
  int at[5];
};
__device__ __forceinline__ void copy_box(uint32_t to, const CUtensorMap* map, uint32_t barrier, const Corner& corner) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, %7}], "
      "[%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(corner.at[0]), "r"(corner.at[1]), "r"(corner.at[2]), "r"(corner.at[3]), "r"(corner.at[4])
      : "memory");
}

__device__ __forceinline__ void make_barrier(uint32_t at, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void arrive(uint32_t at) {
  asm volatile("{ .reg .b64 s; mbarrier.arrive.shared::cta.b64 s, [%0]; }" ::"r"(at) : "memory");
}
__device__ __forceinline__ void expect(uint32_t at, int bytes) {
  asm volatile("{ .reg .b64 s; mbarrier.arrive.expect_tx.shared::cta.b64 s, [%0], %1; }" ::"r"(at), "r"(bytes) : "memory");
}
__device__ __forceinline__ void wait_phase(uint32_t at, uint32_t parity) {
  uint32_t done = 0;
  while (!done)
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done)
                 : "r"(at), "r"(parity)
                 : "memory");
}
template <int Registers>
__device__ __forceinline__ void fewer_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
}
template <int Registers>
__device__ __forceinline__ void more_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
}

template <int Rows, bool AK, bool BK, int Slack>
struct Ring {
  static constexpr int boxes_a = AK ? 1 : Rows / 64, box_a = AK ? Rows * 128 : 8192, bytes_a = Rows * 128;
  static constexpr int boxes_b = BK ? 1 : (kColumns + 63) / 64, box_b = BK ? kColumns * 128 : 8192;
  static constexpr int stage = bytes_a + boxes_b * box_b, limit = 227 * 1024 - 1024 - 128 - Slack;
  static constexpr int stages = limit / stage > 6 ? 6 : limit / stage;
  static constexpr int bytes = stages * stage + Slack + 128 + 1024;
};

__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release;\n\tbarrier.cluster.wait.acquire;" ::: "memory");
}

// Two blocks of a cluster have halves of the sums of 256 rows: each gives half of its rows away and keeps the other, which
// goes to `mine`. The ring is free then.
__device__ __forceinline__ void exchange(const float (&sum)[2][kColumns / 2], float (&mine)[1][kColumns / 2], int rank,
                                         uint32_t ring) {
  const uint32_t own = ring + (threadIdx.x - 128) * 16;
  uint32_t other;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(other) : "r"(own), "r"(rank ^ 1));
  cluster_sync();
#pragma unroll
  for (int i = 0; i < kColumns / 2; i += 4)
    asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(other + i * 1024), "f"(rank ? sum[0][i] : sum[1][i]),
                 "f"(rank ? sum[0][i + 1] : sum[1][i + 1]), "f"(rank ? sum[0][i + 2] : sum[1][i + 2]),
                 "f"(rank ? sum[0][i + 3] : sum[1][i + 3])
                 : "memory");
  cluster_sync();
#pragma unroll
  for (int i = 0; i < kColumns / 2; i += 4) {
    float got[4];
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(got[0]), "=f"(got[1]), "=f"(got[2]), "=f"(got[3])
                 : "r"(own + i * 1024)
                 : "memory");
#pragma unroll
    for (int k = 0; k < 4; ++k) mine[0][i + k] = (rank ? sum[1][i + k] : sum[0][i + k]) + got[k];
  }
}

// The job says which tiles (or parts of a tile's sum) this block has, where their boxes begin, and what becomes of sums.
// Both groups have halves of a tile's rows, or take turns with whole tiles, so that one stores while the other multiplies,
// or two blocks, a cluster, have half of the steps of a tile of 256 rows each.
enum class Way { halves, turns, pairs };
template <int Rows, bool AK, bool BK, Way How, typename Job>
__device__ __forceinline__ void multiply_tiles(const CUtensorMap& map_a, const CUtensorMap& map_b, const Job& job) {
  using R = Ring<Rows, AK, BK, Job::kSlack>;
  constexpr bool Paired = How == Way::pairs, Turns = How == Way::turns;
  constexpr int each = Turns ? Rows / 64 : Rows / 128;  // 64 rows of a group's own
  extern __shared__ __align__(16) unsigned char room[];
  const uint32_t base = (smem_of(room) + 1023) & ~1023u, slack = base + R::stages * R::stage;
  const uint32_t full = slack + Job::kSlack, empty = full + 8 * R::stages;
  const int group = threadIdx.x / 128, lane = threadIdx.x % 32, rank = static_cast<int>(blockIdx.x) % 2;
  if (threadIdx.x == 0) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(&map_a) : "memory");
    asm volatile("prefetch.tensormap [%0];" ::"l"(&map_b) : "memory");
    for (int i = 0; i < R::stages; ++i) {
      make_barrier(full + 8 * i, 1);
      make_barrier(empty + 8 * i, Turns ? 4 : 8);  // warps that read a tile
    }
    asm volatile("fence.proxy.async;" ::: "memory");
  }
  __syncthreads();
  int stage = 0;
  uint32_t phase = 0;
  const auto next = [&] {
    if (++stage == R::stages) stage = 0, phase ^= 1;
  };
  const auto each_part = [&](const auto& work) {
    if constexpr (Paired) {
      const int number = static_cast<int>(blockIdx.x) / 2, steps = job.steps(number), half = (steps + 1) / 2;
      work(number, rank ? half : 0, rank ? steps : half, 0);
    } else {
      job.each_part(work);
    }
  };

  if (group == 0) {
    fewer_registers<40>();
    if (threadIdx.x == 0) {
      each_part([&](int number, int begin, int end, int) {
        const auto tile = job.template tile<Rows>(number);
#pragma unroll 1
        for (int step = begin; step < end; ++step) {
          wait_phase(empty + 8 * stage, phase ^ 1);
          const uint32_t to = base + stage * R::stage, ready = full + 8 * stage;
          expect(ready, R::stage);
#pragma unroll
          for (int i = 0; i < R::boxes_a; ++i) copy_box(to + i * R::box_a, &map_a, ready, job.a(tile, step, i));
#pragma unroll
          for (int i = 0; i < R::boxes_b; ++i)
            copy_box(to + R::bytes_a + i * R::box_b, &map_b, ready, job.b(tile, step, i));
          next();
        }
      });
    }
    if constexpr (Paired) {
      __syncwarp();
      cluster_sync();  // as the others do in exchange
      cluster_sync();
    }
  } else {
    more_registers<232>();
    const int own = group - 1;
    const int unit = Turns ? 0 : own * each;
    uint32_t flip = 0;
    int turn = 0;
    // A group begins when the other has got all of its tiles: only then do a barrier's two phases say which one it is.
    const auto wait_turn = [&] {
      if (turn > 0) asm volatile("bar.sync %0, 256;" ::"r"(4 - own) : "memory");
    };
    each_part([&](int number, int begin, int end, int part) {
      if constexpr (Turns) {
        if (turn % 2 != own) {
          const int to = stage + end - begin;
          stage = to % R::stages, phase ^= to / R::stages & 1, ++turn;
          return;
        }
        wait_turn(), ++turn;
      }
      float sum[each][kColumns / 2];
      int before = -1;
#pragma unroll 1
      for (int step = begin; step < end; ++step) {
        wait_phase(full + 8 * stage, phase);
        const uint32_t at = base + stage * R::stage;
        const uint64_t a = tile_at(at + unit * 8192), b = tile_at(at + R::bytes_a);
        sums_ready();
#pragma unroll
        for (int k = 0; k < 4; ++k)  // 16 k's on: 32 bytes along a row, or 16 lines
#pragma unroll
          for (int e = 0; e < each; ++e)
            multiply_group<AK, BK>(sum[e], a + (e * 8192 + k * (AK ? 32 : 2048)) / 16, b + k * (BK ? 32 : 2048) / 16,
                                   step > begin || k > 0);
        close_group();
        wait_groups<1>();  // the step before is done with its tile
        if (before >= 0 && lane == 0) arrive(empty + 8 * before);
        before = stage;
        next();
      }
      if constexpr (Turns) asm volatile("bar.arrive %0, 256;" ::"r"(3 + own) : "memory");
      wait_groups<0>();
      if (before >= 0 && lane == 0) arrive(empty + 8 * before);
      if constexpr (Paired) {
        float mine[1][kColumns / 2];
        exchange(sum, mine, rank, base);
        job.template store<Rows>(mine, number, part, own * 2 + rank, slack + own * 8192, flip);
      } else {
        job.template store<Rows>(sum, number, part, unit, slack + own * 8192, flip);
      }
    });
    if constexpr (Turns)
      if (turn % 2 == own) wait_turn();  // so that no arrival is left over
  }
}

template <int Rows, bool AK, bool BK, Way How, typename Job>
__global__ __launch_bounds__(384, 1) void product_groups(const __grid_constant__ CUtensorMap map_a,
                                                         const __grid_constant__ CUtensorMap map_b,
                                                         const __grid_constant__ Job job) {
  multiply_tiles<Rows, AK, BK, How>(map_a, map_b, job);
}
template <bool AK, bool BK, typename Job>
__global__ __cluster_dims__(2, 1, 1) __launch_bounds__(384, 1) void product_pairs(const __grid_constant__ CUtensorMap map_a,
                                                                                  const __grid_constant__ CUtensorMap map_b,
                                                                                  const __grid_constant__ Job job) {
  multiply_tiles<256, AK, BK, Way::pairs>(map_a, map_b, job);
}

// The map of a tensor of five axes (strides in elements, of all but the first axis).
inline CUtensorMap map_of(const __half* at, const int64_t (&sizes)[5], const int64_t (&strides)[4], const int (&box)[5]) {
  warpsmith::TiledMap kind;
  kind.data_type = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  kind.swizzle = CU_TENSOR_MAP_SWIZZLE_128B;
  kind.l2_promotion = CU_TENSOR_MAP_L2_PROMOTION_L2_256B;
  uint64_t size[5], stride[4];
  uint32_t boxes[5];
  const uint32_t steps[5] = {1, 1, 1, 1, 1};
  for (int i = 0; i < 5; ++i) size[i] = static_cast<uint64_t>(sizes[i]), boxes[i] = static_cast<uint32_t>(box[i]);
  for (int i = 0; i < 4; ++i) stride[i] = static_cast<uint64_t>(strides[i]) * sizeof(__half);
  return warpsmith::encode_tiled(kind, 5, const_cast<__half*>(at), size, stride, boxes, steps);
}

// Images with channels last; a stride's remainders are axes of their own (that of x within the channels').
inline CUtensorMap map_of_images(const __half* at, int batch, int height, int width, int depth, int stride,
                                 const int (&box)[3]) {
  const int64_t line = static_cast<int64_t>(width) * depth;
  return map_of(at, {static_cast<int64_t>(stride) * depth, width / stride, stride, height / stride, batch},
                {static_cast<int64_t>(stride) * depth, line, stride * line, height * line}, {64, box[0], 1, box[1], box[2]});
}
// Images as they are given: planes of `area` places.
inline CUtensorMap map_of_planes(const __half* at, int batch, int channels, int area, int box) {
  const int64_t all = static_cast<int64_t>(channels) * area;
  return map_of(at, {area, channels, batch, 1, 1}, {area, all, all * batch, all * batch}, {64, box, 1, 1, 1});
}
inline CUtensorMap map_of_rows(const __half* at, int rows, int64_t length, int box) {
  return map_of(at, {length, rows, 1, 1, 1}, {length, length * rows, length * rows, length * rows}, {64, box, 1, 1, 1});
}

template <int Rows, bool AK, bool BK, Way How, typename Job>
void launch_groups(const CUtensorMap& map_a, const CUtensorMap& map_b, const Job& job, int blocks, cudaStream_t stream) {
  const auto kernel = &product_groups<Rows, AK, BK, How, Job>;
  constexpr int bytes = Ring<Rows, AK, BK, Job::kSlack>::bytes;
  C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  kernel<<<static_cast<unsigned>(blocks < kProcessors ? blocks : kProcessors), 384, bytes, stream>>>(map_a, map_b, job);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}
template <bool AK, bool BK, typename Job>
void launch_pairs(const CUtensorMap& map_a, const CUtensorMap& map_b, const Job& job, int tiles, cudaStream_t stream) {
  const auto kernel = &product_pairs<AK, BK, Job>;
  constexpr int bytes = Ring<256, AK, BK, Job::kSlack>::bytes;
  C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  kernel<<<static_cast<unsigned>(2 * tiles), 384, bytes, stream>>>(map_a, map_b, job);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

// Tiles of places by columns: 128 rows, the same with groups in turn, 256 rows, or those by pairs of blocks.
enum class Size { small, turns, large, pairs };

// Large tiles read less, small ones fill the multiprocessors better; pairs do both, if there are as many as them.
inline Size size_for(int64_t places, int columns, int64_t steps, int classes) {
  const int64_t across = (columns + kColumns - 1) / kColumns;
  const auto tiles = [&](int64_t rows) { return (places + rows - 1) / rows * across; };
  const auto rounds = [&](int64_t rows) { return static_cast<double>((tiles(rows) + kProcessors - 1) / kProcessors * rows); };
  if (PAIRS && ROWS != 128 && classes == 1 && tiles(256) <= kProcessors / 2 && steps >= PAIR_STEPS) return Size::pairs;
  const bool turns = TURNS && ROWS != 256 && tiles(128) * classes > kProcessors;
  if (turns && steps <= TURN_STEPS) return Size::turns;  // storing takes a good part of the time
  return ROWS == 256 || (ROWS == 0 && rounds(256) * 0.92 < rounds(128)) ? Size::large : Size::small;
}

// Rows of a tile: places in a box of x, y and images (powers of two).
struct Places {
  int batch, height, width;
  int wide, high;           // the box's logarithms; images are the rest of the rows
  int across, down, deep;   // tiles
  int count() const { return across * down * deep; }
  void box(int rows, int (&to)[3]) const { to[0] = 1 << wide, to[1] = 1 << high, to[2] = rows >> wide >> high; }
  __device__ __forceinline__ void corner(int tile, int rows, int& x, int& y, int& image) const {
    x = (tile % across) << wide;
    y = (tile / across % down) << high;
    image = tile / across / down * (rows >> wide >> high);
  }
};

// The box that leaves the least of its rows empty, and of those the widest.
inline Places places_of(int batch, int height, int width, int rows) {
  Places best = {};
  const auto over = [](int size, int by) { return (size + by - 1) / by; };
  for (int wide = 0; 1 << wide <= rows; ++wide)
    for (int high = 0; 1 << wide + high <= rows; ++high) {
      const int images = rows >> wide >> high;
      const Places p = {batch, height, width, wide, high, over(width, 1 << wide), over(height, 1 << high), over(batch, images)};
      if (best.batch == 0 || p.count() < best.count() || (p.count() == best.count() && p.wide > best.wide)) best = p;
    }
  return best;
}

// Sums of places by columns to planes of an image: tile (x, y, image) goes to places (top + y·step, left + x·step). Through
// shared memory, 64 places by 32 columns at a time, so that neighbouring places are stored together. `unit`: the first 64
// of the tile's rows.
constexpr int kStoreSlack = 4 * 4096;  // bytes: two tiles for each group
struct Planes {
  __half* to;
  const __half* bias;  // of a column, or null
  int columns, height, width, step;
};
template <int Rows, int Each>
__device__ __forceinline__ void store_planes(const float (&sum)[Each][kColumns / 2], const Places& p, const Planes& o,
                                             int number, int col0, int top, int left, int unit, uint32_t slack,
                                             uint32_t& flip) {
  const int thread = threadIdx.x % 128, lane = threadIdx.x % 32, warp = thread / 32, t = lane % 4;
  const bool wide = o.step == 1 && o.width % 8 == 0 && p.wide >= 3;
  int x0, y0, image0;
  p.corner(number, Rows, x0, y0, image0);
#pragma unroll
  for (int e = 0; e < Each; ++e) {
    const int m = (unit + e) * 64 + (wide ? thread % 8 * 8 : thread % 64);  // this thread's place
    const int x = x0 + (m & ((1 << p.wide) - 1)), y = y0 + (m >> p.wide & ((1 << p.high) - 1));
    const int image = image0 + (m >> p.wide >> p.high);
    const bool inside = x < p.width && y < p.height && image < p.batch;
    const int64_t area = static_cast<int64_t>(o.height) * o.width;
    __half* const to = o.to + (static_cast<int64_t>(image) * o.columns + col0) * area +
                       static_cast<int64_t>(top + y * o.step) * o.width + left + x * o.step;
#pragma unroll
    for (int piece = 0; piece < kColumns / 32; ++piece) {
      const uint32_t tile = slack + flip;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        uint32_t word[4];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int j = piece * 4 + h * 2 + i, col = col0 + j * 8 + 2 * t;
          const float low = o.bias && col < o.columns ? __half2float(o.bias[col]) : 0.0f;
          const float high = o.bias && col + 1 < o.columns ? __half2float(o.bias[col + 1]) : 0.0f;
#pragma unroll
          for (int r = 0; r < 2; ++r) {
            const __half2 pair = __floats2half2_rn(sum[e][4 * j + 2 * r] + low, sum[e][4 * j + 2 * r + 1] + high);
            word[2 * i + r] = *reinterpret_cast<const uint32_t*>(&pair);
          }
        }
        const int line = h * 16 + lane / 16 * 8 + lane % 8, chunk = warp * 2 + lane / 8 % 2;
        asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                         tile + line * 128 + ((chunk ^ (line & 7)) << 4)),
                     "r"(word[0]), "r"(word[1]), "r"(word[2]), "r"(word[3])
                     : "memory");
      }
      asm volatile("bar.sync %0, 128;" ::"r"(static_cast<int>(threadIdx.x) / 128) : "memory");
      // The other half of the room is written next: whoever still reads this one holds no one up.
      flip ^= 4096;
      if (wide) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int line = thread / 8 + i * 16;
          uint4 eight;
          asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                       : "=r"(eight.x), "=r"(eight.y), "=r"(eight.z), "=r"(eight.w)
                       : "r"(tile + line * 128 + ((thread % 8 ^ (line & 7)) << 4))
                       : "memory");
          if (inside && col0 + piece * 32 + line < o.columns) 
            __stcs(reinterpret_cast<uint4*>(to + (piece * 32 + line) * area), eight);
        }
      } else {
#pragma unroll 4
        for (int i = 0; i < 16; ++i) {
          const int line = thread / 64 + i * 2;
          unsigned short one;
          asm volatile("ld.shared.u16 %0, [%1];"
                       : "=h"(one)
                       : "r"(tile + line * 128 + ((thread % 64 / 8 ^ (line & 7)) << 4) + thread % 8 * 2)
                       : "memory");
          if (inside && col0 + piece * 32 + line < o.columns)
            reinterpret_cast<unsigned short*>(to)[(piece * 32 + line) * area] = one;
        }
      }
    }
  }
}

// d = quotient·by + rest with 0 <= rest < by.
__device__ __forceinline__ void floor_divide(int d, int by, int& quotient, int& rest) {
  quotient = (d + by * 64) / by - 64;
  rest = d - quotient * by;
}

// ---- layouts for warp groups, 16 bytes at a time ---------------------------------------------------------------------

// One block's part of: images to channels last. 64 channels by 64 places; a thread has eight places of two channels, whose
// sums it returns. `whole`: lines of places are whole 16-byte pieces.
__device__ __forceinline__ float2 channels_last_by_pairs(const __half* from, __half* to, int channels, int area, int depth,
                                                         int block, bool whole, uint32_t* tile) {
  const int places = (area + 63) / 64, groups = depth / 64;
  const int place0 = block % places * 64, c0 = block / places % groups * 64;
  const int64_t image = block / places / groups;
  const int g = threadIdx.x % 8, pair = threadIdx.x / 8;
  uint32_t line[2][4] = {};
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int c = c0 + pair * 2 + i, place = place0 + g * 8;
    if (c >= channels || place >= area) continue;
    const __half* const at = from + (image * channels + c) * area + place;
    if (whole) {
      const uint4 got = *reinterpret_cast<const uint4*>(at);
      line[i][0] = got.x, line[i][1] = got.y, line[i][2] = got.z, line[i][3] = got.w;
    } else {
#pragma unroll
      for (int k = 0; k < 8; ++k)
        if (place + k < area)
          line[i][k / 2] |= static_cast<uint32_t>(reinterpret_cast<const unsigned short*>(at)[k]) << k % 2 * 16;
    }
  }
  // Pieces of 16 bytes (eight channels) are exchanged so that no bank is met twice, writing or reading.
#pragma unroll
  for (int k = 0; k < 8; ++k)
    tile[(g * 8 + k) * 32 + (pair / 4 ^ g) * 4 + pair % 4] =
        __byte_perm(line[0][k / 2], line[1][k / 2], k % 2 ? 0x7632 : 0x5410);
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int p = threadIdx.x / 8 + i * 32;
    if (place0 + p < area)
      *reinterpret_cast<uint4*>(to + (image * area + place0 + p) * depth + c0 + g * 8) =
          reinterpret_cast<const uint4*>(tile)[p * 8 + (g ^ p / 8)];
  }
  float sums[2] = {};
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    const float2 two = __half22float2(*reinterpret_cast<const __half2*>(&line[k / 4][k % 4]));
    sums[k / 4] += two.x + two.y;
  }
  return make_float2(sums[0], sums[1]);
}
inline int channels_last_by_pairs_blocks(int batch, int area, int depth) { return batch * ((area + 63) / 64) * (depth / 64); }

// One block's part of: weights [row][channel][tap] to [row][tap][depth]; a warp has 64 channels of one row.
constexpr int kMostTaps = 9;
__device__ __forceinline__ void weights_by_taps(const __half* from, __half* to, int rows, int channels, int taps, int depth,
                                                int block, bool whole, unsigned short (*lines)[64 * kMostTaps]) {
  const int lane = threadIdx.x % 32, groups = depth / 64;
  const int item = block * 8 + static_cast<int>(threadIdx.x) / 32, c0 = item % groups * 64;
  const int64_t row = item / groups;
  if (row >= rows) return;
  unsigned short* const line = lines[threadIdx.x / 32];
  const int entries = min(64, channels - c0) * taps;
  const __half* const at = from + (row * channels + c0) * taps;
  if (whole) {
    uint4 got[(8 * kMostTaps + 31) / 32];  // all on their way before the first is stored
#pragma unroll
    for (int i = 0; i < (8 * kMostTaps + 31) / 32; ++i)
      if (lane + i * 32 < entries / 8) got[i] = reinterpret_cast<const uint4*>(at)[lane + i * 32];
#pragma unroll
    for (int i = 0; i < (8 * kMostTaps + 31) / 32; ++i)
      if (lane + i * 32 < entries / 8) reinterpret_cast<uint4*>(line)[lane + i * 32] = got[i];
  } else {
    for (int i = lane; i < entries; i += 32) line[i] = reinterpret_cast<const unsigned short*>(at)[i];
  }
  __syncwarp();
  for (int i = lane; i < taps * 8; i += 32) {
    const int tap = i / 8, c = i % 8 * 8;
    uint32_t word[4] = {};
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const int entry = (c + k) * taps + tap;
      if (entry < entries) word[k / 2] |= static_cast<uint32_t>(line[entry]) << k % 2 * 16;
    }
    *reinterpret_cast<uint4*>(to + (row * taps + tap) * depth + c0 + c) = make_uint4(word[0], word[1], word[2], word[3]);
  }
}
inline int weights_by_taps_blocks(int rows, int depth) { return (rows * (depth / 64) + 7) / 8; }

// Both layouts in one launch: the first blocks have images, the others weights.
__global__ __launch_bounds__(256, 6) void prepare_groups(const __half* x, __half* images, const __half* weight, __half* weights,
                                                      int channels, int area, int depth, int filters, int taps,
                                                      int image_blocks, bool whole_lines, bool whole_rows) {
  __shared__ __align__(16) union {
    uint32_t tile[64 * 32];
    unsigned short lines[8][64 * kMostTaps];
  } room;
  const int block = static_cast<int>(blockIdx.x);
  if (block < image_blocks)
    channels_last_by_pairs(x, images, channels, area, depth, block, whole_lines, room.tile);
  else
    weights_by_taps(weight, weights, filters, channels, taps, depth, block - image_blocks, whole_rows, room.lines);
}

// Rows are places, columns filters, the sum goes over taps and channels. ByPlanes: a 1 by 1 filter, images as they are
// given (places are then next to each other, not channels), weights too.
template <bool ByPlanes>
struct Convolution {
  static constexpr int kSlack = kStoreSlack;
  Places places;
  Planes out;
  int filter_tiles, chunks, depth, kernel, stride, padding;

  struct Tile {
    int x, y, image, filter;
  };
  template <typename Work>
  __device__ __forceinline__ void each_part(const Work& work) const {
    const int tiles = places.across * places.down * places.deep * filter_tiles;
#pragma unroll 1
    for (int i = static_cast<int>(blockIdx.x); i < tiles; i += static_cast<int>(gridDim.x))
      work(i, 0, steps(i), 0);
  }
  __device__ __forceinline__ int steps(int) const { return kernel * kernel * chunks; }
  template <int Rows>
  __device__ __forceinline__ Tile tile(int number) const {
    Tile at;
    at.filter = number % filter_tiles * kColumns;
    places.corner(number / filter_tiles, Rows, at.x, at.y, at.image);
    return at;
  }
  __device__ __forceinline__ Corner a(const Tile& at, int step, int box) const {
    if constexpr (ByPlanes) return {at.x + box * 64, step * 64, at.image, 0, 0};
    const int tap = step / chunks, i = tap / kernel;
    int down, across, below, right;
    floor_divide(i - padding, stride, down, below);
    floor_divide(tap - i * kernel - padding, stride, across, right);
    return {right * depth + (step - tap * chunks) * 64, at.x + across, below, at.y + down, at.image};
  }
  __device__ __forceinline__ Corner b(const Tile& at, int step, int) const { return {step * 64, at.filter, 0, 0, 0}; }
  template <int Rows, int Each>
  __device__ __forceinline__ void store(const float (&sum)[Each][kColumns / 2], int number, int, int unit, uint32_t slack,
                                        uint32_t& flip) const {
    store_planes<Rows>(sum, places, out, number / filter_tiles, number % filter_tiles * kColumns, 0, 0, unit, slack, flip);
  }
};

template <int Rows, Way How, bool ByPlanes>
void convolve_groups(const __half* images, const __half* weights, Convolution<ByPlanes> job, int batch, int height, int width,
                     int channels, cudaStream_t stream) {
  const Planes& o = job.out;
  if constexpr (ByPlanes) {
    const int area = o.height * o.width;
    job.places = {batch, 1, area, Rows == 256 ? 8 : 7, 0, (area + Rows - 1) / Rows, 1, batch};
    job.out.height = 1, job.out.width = area;
    launch_groups<Rows, false, true, How>(map_of_planes(images, batch, channels, area, 64),
                                     map_of_rows(weights, o.columns, channels, kColumns), job,
                                     job.places.count() * job.filter_tiles, stream);
  } else {
    job.places = places_of(batch, o.height, o.width, Rows);
    int box[3];
    job.places.box(Rows, box);
    const CUtensorMap map_a = map_of_images(images, batch, height, width, job.depth, job.stride, box);
    const CUtensorMap map_b =
        map_of_rows(weights, o.columns, static_cast<int64_t>(job.kernel) * job.kernel * job.depth, kColumns);
    const int tiles = job.places.count() * job.filter_tiles;
    if constexpr (How == Way::pairs)
      launch_pairs<true, true>(map_a, map_b, job, tiles, stream);
    else
      launch_groups<Rows, true, true, How>(map_a, map_b, job, tiles, stream);
  }
}

// Whether warp groups take it; then it is done.
bool convolve_by_groups(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias,
                        const torch::Tensor& out, int stride, int padding) {
  const int batch = static_cast<int>(x.size(0)), channels = static_cast<int>(x.size(1));
  const int height = static_cast<int>(x.size(2)), width = static_cast<int>(x.size(3));
  const int filters = static_cast<int>(weight.size(0)), kernel = static_cast<int>(weight.size(2)), taps = kernel * kernel;
  const int depth = padded<__half>(channels), area = height * width;
  const int out_height = static_cast<int>(out.size(2)), out_width = static_cast<int>(out.size(3));
  const int64_t places = static_cast<int64_t>(batch) * out_height * out_width;
  if (taps > kMostTaps || height % stride || width % stride) return false;
  if (places * filters * channels * taps < (int64_t{1} << GROUP_WORK)) return false;
  const auto in = [](const torch::Tensor& tensor) { return static_cast<__half*>(tensor.data_ptr()); };
  for (const torch::Tensor* tensor : {&x, &weight, &out})
    if (reinterpret_cast<uintptr_t>(tensor->data_ptr()) % 16) return false;
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();

  const int filter_tiles = (filters + kColumns - 1) / kColumns;
  const Size size = size_for(places, filters, taps * (depth / 64), 1);
  const Planes planes = {in(out), in(bias), filters, out_height, out_width, 1};
  const bool given = kernel == 1 && stride == 1 && padding == 0 && channels % 8 == 0 && area % 8 == 0;
  if (given) {
    const Convolution<true> job = {{}, planes, filter_tiles, (channels + 63) / 64, channels, 1, 1, 0};
    const auto go = size == Size::turns   ? &convolve_groups<128, Way::turns, true>
                    : size == Size::small ? &convolve_groups<128, Way::halves, true>
                                          : &convolve_groups<256, Way::halves, true>;
    go(in(x), in(weight), job, batch, height, width, channels, stream);
    return true;
  }
  auto images = torch::empty({static_cast<int64_t>(batch) * area, depth}, x.options());
  auto weights = torch::empty({static_cast<int64_t>(filters) * taps, depth}, x.options());
  const int image_blocks = channels_last_by_pairs_blocks(batch, area, depth);
  prepare_groups<<<static_cast<unsigned>(image_blocks + weights_by_taps_blocks(filters, depth)), 256, 0, stream>>>(
      in(x), in(images), in(weight), in(weights), channels, area, depth, filters, taps, image_blocks, area % 8 == 0,
      channels % 8 == 0);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  const Convolution<false> job = {{}, planes, filter_tiles, depth / 64, depth, kernel, stride, padding};
  const auto go = size == Size::pairs   ? &convolve_groups<256, Way::pairs, false>
                  : size == Size::large ? &convolve_groups<256, Way::halves, false>
                  : size == Size::turns ? &convolve_groups<128, Way::turns, false>
                                        : &convolve_groups<128, Way::halves, false>;
  go(in(images), in(weights), job, batch, height, width, channels, stream);
  return true;
}
#endif

template <typename T>
void convolve(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, torch::Tensor out, int stride, int padding) {
  const int batch = static_cast<int>(x.size(0)), channels = static_cast<int>(x.size(1));
  const int height = static_cast<int>(x.size(2)), width = static_cast<int>(x.size(3));
  const int filters = static_cast<int>(weight.size(0)), kernel = static_cast<int>(weight.size(2));
  const int depth = padded<T>(channels), area = height * width, taps = kernel * kernel;
  auto images = torch::empty({static_cast<int64_t>(batch) * area, depth}, x.options());
  auto weights = torch::empty({static_cast<int64_t>(filters) * taps, depth}, x.options());
  T *const last = static_cast<T*>(images.data_ptr()), *const by = static_cast<T*>(weights.data_ptr());
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();

  const int image_blocks = channels_last_blocks(batch, area, depth);
  prepare<T><<<static_cast<unsigned>(image_blocks + weights_by_row_blocks(filters, depth)), 256, 0, stream>>>(
      static_cast<const T*>(x.data_ptr()), last, static_cast<const T*>(weight.data_ptr()), by, channels, area, depth,
      filters, taps, image_blocks);
  C10_CUDA_KERNEL_LAUNCH_CHECK();

  const Dense places = {batch, static_cast<int>(out.size(2)), static_cast<int>(out.size(3))};
  const Output<T> job = {places, plain_taps(kernel, stride, padding), static_cast<const T*>(bias.data_ptr()),
                         static_cast<T*>(out.data_ptr())};
  conv_any<T>(by, last, {height, width, depth, kernel}, job, filters, batch * places.height * places.width, 1, stream);
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

__global__ __launch_bounds__(256) void convolve_exactly(const float* x, const float* weight, const float* bias, float* out,
                                                        Layer s) {
  const int64_t result = static_cast<int64_t>(blockIdx.x) * 8 + threadIdx.x / 32;
  if (result >= s.places() * s.filters) return;
  const auto from = [&](int64_t i, int) { return static_cast<double>(x[i]); };
  const double sum = exact_place(s, from, weight, result);
  const int64_t filter = result / s.out_height / s.out_width % s.filters;
  if (threadIdx.x % 32 == 0) out[result] = static_cast<float>(sum + static_cast<double>(bias[filter]));
}

// Whether float32 results are few; then they are made.
bool by_few(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias, const torch::Tensor& out,
            int stride, int padding) {
  const auto size = [](const torch::Tensor& tensor, int axis) { return static_cast<int>(tensor.size(axis)); };
  const Layer s = {size(x, 0), size(x, 1), size(x, 2), size(x, 3), size(weight, 0),
                   size(weight, 2), stride, padding, size(out, 2), size(out, 3)};
  if (x.scalar_type() != at::kFloat || !is_few(s, out.numel())) return false;
  const auto blocks = static_cast<unsigned>((out.numel() + 7) / 8);
  convolve_exactly<<<blocks, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(), out.data_ptr<float>(), s);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return true;
}

bool by_groups(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias, const torch::Tensor& out,
               int stride, int padding) {
#if STRATEGY == 1
  return convolve_by_groups(x, weight, bias, out, stride, padding);
#else
  return false;
#endif
}

}  // namespace

torch::Tensor forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, int64_t stride, int64_t padding) {
  TORCH_CHECK(x.is_contiguous() && weight.is_contiguous() && bias.is_contiguous(), "tensors must be contiguous");
  const int64_t reach = 2 * padding - weight.size(2);
  auto out = torch::empty({x.size(0), weight.size(0), (x.size(2) + reach) / stride + 1, (x.size(3) + reach) / stride + 1},
                          x.options());
  if (out.numel() == 0) return out;
  if (by_few(x, weight, bias, out, static_cast<int>(stride), static_cast<int>(padding))) return out;
  if (x.scalar_type() == at::kFloat)
    convolve<float>(x, weight, bias, out, static_cast<int>(stride), static_cast<int>(padding));
  else if (!by_groups(x, weight, bias, out, static_cast<int>(stride), static_cast<int>(padding)))
    convolve<__half>(x, weight, bias, out, static_cast<int>(stride), static_cast<int>(padding));
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }

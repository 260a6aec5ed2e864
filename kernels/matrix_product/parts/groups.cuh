
// ---------------------------------------------------------------------------------------------------------------------
// Large products of 16-bit numbers by warp groups: one thread has the copy engine fill a ring of tiles, two groups of
// four warps multiply from it. Tiles are as the copy engine writes them with its 128-byte swizzle: k-major ones as rows of
// 64 k's, others as boxes of 64 lines (k's) of 64 m's or n's.
#if STRATEGY == 1

//: part wgmma_$MIDDLE
#define WGMMA_256(KIND) \
  "{ .reg .pred p; setp.ne.b32 p, %130, 0; wgmma.mma_async.sync.aligned.m64n256k16.f32." KIND "." KIND " {" \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15," \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31," \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47," \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63," \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79," \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95," \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111," \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127" \
  "}, %128, %129, p, 1, 1, %131, %132; }"
#define WGMMA_SUMS_256 \
  "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),  \
  "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),  \
  "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),  \
  "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),  \
  "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),  \
  "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),  \
  "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),  \
  "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]),  \
  "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]),  \
  "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]),  \
  "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]),  \
  "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]),  \
  "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]),  \
  "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111]),  \
  "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]),  \
  "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])

// d (64 × N) = a (64 × 16) · b (16 × N), added to what d was where `keep` is not 0.
template <int N, bool AK, bool BK, typename T>
__device__ __forceinline__ void multiply_group(float (&d)[N / 2], uint64_t a, uint64_t b, int keep) {
  if constexpr (N == $MIDDLE) {
    if constexpr (std::is_same_v<T, at::Half>)
      asm volatile(WGMMA_$MIDDLE("f16") : WGMMA_SUMS_$MIDDLE : "l"(a), "l"(b), "r"(keep), "n"(!AK), "n"(!BK));
    else
      asm volatile(WGMMA_$MIDDLE("bf16") : WGMMA_SUMS_$MIDDLE : "l"(a), "l"(b), "r"(keep), "n"(!AK), "n"(!BK));
  } else if constexpr (N == 256) {
    if constexpr (std::is_same_v<T, at::Half>)
      asm volatile(WGMMA_256("f16") : WGMMA_SUMS_256 : "l"(a), "l"(b), "r"(keep), "n"(!AK), "n"(!BK));
    else
      asm volatile(WGMMA_256("bf16") : WGMMA_SUMS_256 : "l"(a), "l"(b), "r"(keep), "n"(!AK), "n"(!BK));
  }
}

__device__ __forceinline__ void sums_ready() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void close_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

template <int Left>
__device__ __forceinline__ void wait_groups() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Left) : "memory");
}

// Copies a box to shared memory of this block, or to the same place in both blocks of the cluster.
template <bool Both>
__device__ __forceinline__ void copy_box(uint32_t to, const CUtensorMap* map, uint32_t barrier, int x, int y) {
  if constexpr (Both)
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1, {%3, %4}], [%2], %5;" ::"r"(to),
        "l"(map), "r"(barrier), "r"(x), "r"(y), "h"(static_cast<uint16_t>(3))
        : "memory");
  else
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(to),
        "l"(map), "r"(barrier), "r"(x), "r"(y)
        : "memory");
}

// Copies a box of results from shared memory.
__device__ __forceinline__ void send_box(uint32_t from, const CUtensorMap* map, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%1, {%2, %3}], [%0];" ::"r"(from), "l"(map), "r"(x),
               "r"(y)
               : "memory");
}

// Ends a group of boxes that this thread sent, which may be empty.
__device__ __forceinline__ void end_sent() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Waits until all but the last `Left` groups of boxes have been read.
template <int Left>
__device__ __forceinline__ void wait_sent() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(Left) : "memory");
}

__device__ __forceinline__ void store_matrices(uint32_t at, const uint32_t (&from)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(from[0]), "r"(from[1]),
               "r"(from[2]), "r"(from[3])
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

// What wgmma is told of a tile: its address, 128-byte swizzle, 1024 bytes from eight rows (k-major) or eight k's to the
// next eight, and where the next 64 m's or n's are.
__device__ __forceinline__ uint64_t tile_at(uint32_t address) {
  return static_cast<uint64_t>(address >> 4 & 0x3fff) | static_cast<uint64_t>(8192 >> 4) << 16 |
         static_cast<uint64_t>(1024 >> 4) << 32 | 1ull << 62;
}

__device__ __forceinline__ void make_barrier(uint32_t at, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(arrivals) : "memory");
}

// Lane i tells block i of the cluster.
__device__ __forceinline__ void arrive(uint32_t at, int lane) {
  if constexpr (CLUSTER == 1) {
    if (lane == 0) asm volatile("{ .reg .b64 s; mbarrier.arrive.shared::cta.b64 s, [%0]; }" ::"r"(at) : "memory");
  } else if (lane < CLUSTER) {
    asm volatile(
        "{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1; "
        "mbarrier.arrive.shared::cluster.b64 _, [there]; }" ::"r"(at),
        "r"(lane)
        : "memory");
  }
}

// What a block did before need not be seen by the others, but for barriers made and fenced.
__device__ __forceinline__ void meet() {
  if constexpr (CLUSTER == 1)
    __syncthreads();
  else
    asm volatile("barrier.cluster.arrive.relaxed; barrier.cluster.wait.acquire;" ::: "memory");
}

__device__ __forceinline__ void expect(uint32_t at, int bytes) {
  asm volatile("{ .reg .b64 s; mbarrier.arrive.expect_tx.shared::cta.b64 s, [%0], %1; }" ::"r"(at), "r"(bytes) : "memory");
}

__device__ __forceinline__ void wait_phase(uint32_t at, uint32_t parity) {
  uint32_t done = 0;
  while (!done)
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(at), "r"(parity)
        : "memory");
}

// Four words of each of four lanes, turned: word s of lane t becomes word t of lane s.
__device__ __forceinline__ void turn(uint32_t (&word)[4]) {
  const bool odd = threadIdx.x & 1, high = threadIdx.x & 2;
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const uint32_t got = __shfl_xor_sync(~0u, odd ? word[i] : word[i + 1], 1);
    word[i] = odd ? got : word[i];
    word[i + 1] = odd ? word[i + 1] : got;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const uint32_t got = __shfl_xor_sync(~0u, high ? word[i] : word[i + 2], 2);
    word[i] = high ? got : word[i];
    word[i + 2] = high ? word[i + 2] : got;
  }
}

template <typename T>
__device__ __forceinline__ uint32_t packed(float low, float high) {
  const T pair[2] = {static_cast<T>(low), static_cast<T>(high)};
  uint32_t word;
  memcpy(&word, pair, 4);
  return word;
}

// One product, and how its tiles are counted.
template <typename Epilogue>
struct Job {
  CUtensorMap a[2], b[2], out;
  int m, n, steps_each, steps, part_steps, parts;
  int down, across, tiles;  // of CLUSTER × 128 rows
  Epilogue epilogue;
};

// Products with operands and results of the same kind.
template <bool AKMajor, typename E, int Count>
struct Jobs {
  static constexpr bool a_k_major = AKMajor, sums = E::kSums;
  static constexpr int count = Count;
  using Epilogue = E;
  Job<E> job[Count];
};
struct NoJobs {
  static constexpr bool sums = false;
  static constexpr int count = 0;
};

// Two kinds of products in one launch. Tiles of the kind with the longer sums come first, dealt out one by one; blocks
// that get one less of them than others have `extra` tiles of the other kind instead; then the rest is dealt out.
template <typename First, typename Second>
struct Work {
  First first;
  Second second;
  bool turned;  // the second kind is the longer one
  int longer, shorter, extra;
  int lag;  // nanoseconds
};

constexpr int kRoom = 227 * 1024;  // shared memory of a block

template <int Cols, bool BK, int Reach>
struct Ring {
  static constexpr int rows = 128, depth = 64, boxes = (Cols + 63) / 64;
  static constexpr int bytes_a = rows * 128, bytes_b = BK ? Cols * 128 : boxes * 8192, stage = bytes_a + bytes_b;
  // Results leave in boxes of 16 rows, each warp's own.
  static constexpr int out_cols = Cols % 64 == 0 ? 64 : 32, rounds = Reach / out_cols, buffers = rounds == 4 ? 2 : rounds;
  static constexpr int out_box = 16 * out_cols * 2, out_bytes = STAGED ? 8 * buffers * out_box : 0;
  static constexpr int fit = (kRoom - 1024 - 256 - out_bytes) / stage, stages = fit > 6 ? 6 : fit;
  static constexpr int bytes = stages * stage + out_bytes + 1024 + 256;
};

constexpr int kBand = BAND / CLUSTER, kUnits = UNITS;

template <typename T, int Cols, bool BK, typename First, typename Second>
__global__ void __launch_bounds__(384, 1) product_groups(const __grid_constant__ Work<First, Second> w) {
  constexpr int reach = First::Epilogue::kPaired ? Cols / 2 : Cols;
  constexpr bool share = CLUSTER == 2 && MULTICAST;
  constexpr int helpers = First::sums || Second::sums ? 2 : First::Epilogue::kWide ? 1 : 0;  // warps beside the groups
  using R = Ring<Cols, BK, reach>;
  extern __shared__ char memory[];
  const uint32_t base = (shared_address(memory) + 1023) & ~1023u, sent = base + R::stages * R::stage;
  const uint32_t full = sent + R::out_bytes, empty = full + 8 * R::stages;
  const int group = __shfl_sync(~0u, threadIdx.x / 128, 0);  // told so, the compiler knows that a warp has but one
  const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
  const int rank = CLUSTER == 1 ? 0 : blockIdx.x % CLUSTER;
  if (threadIdx.x == 0) {
    for (int i = 0; i < R::stages; ++i) {
      make_barrier(full + 8 * i, 1);
      make_barrier(empty + 8 * i, (8 + helpers) * CLUSTER);  // warps that read a tile
    }
    asm volatile("fence.mbarrier_init.release.cluster; fence.proxy.async;" ::: "memory");
  }
  const auto prefetch = [](const CUtensorMap* map) { asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory"); };
  if (threadIdx.x == 32) {
    prefetch(&w.first.job[0].a[0]), prefetch(&w.first.job[0].b[0]);
    if constexpr (Second::count > 0) prefetch(&w.second.job[0].a[0]), prefetch(&w.second.job[0].b[0]);
  }
  meet();
  int stage = 0;
  uint32_t phase = 0;
  const auto next = [&] {
    if (++stage == R::stages) stage = 0, phase ^= 1;
  };
  // Calls `visit(jobs, job, row0, col0, begin, end, part)` for tile i of some jobs, in bands of rows for the L2's sake.
  const auto visit_tile = [&](const auto& jobs, int i, const auto& visit) {
    int j = 0;
    if constexpr (std::decay_t<decltype(jobs)>::count > 1)
      while (i >= jobs.job[j].tiles * jobs.job[j].parts) i -= jobs.job[j].tiles * jobs.job[j].parts, ++j;
    const auto& job = jobs.job[j];
    const int part = i / job.tiles, tile = i % job.tiles, band = tile / (kBand * job.across);
    const int band_rows = min(kBand, job.down - band * kBand), inside = tile - band * kBand * job.across;
    visit(jobs, job, ((band * kBand + inside % band_rows) * CLUSTER + rank) * 128, inside / band_rows * reach,
          part * job.part_steps, min((part + 1) * job.part_steps, job.steps), part);
  };
  const auto each_tile = [&](const auto& visit) {
    const int unit = blockIdx.x / CLUSTER, units = gridDim.x / CLUSTER;
    if constexpr (Second::count == 0) {
#pragma unroll 1
      for (int i = unit; i < w.longer; i += units) visit_tile(w.first, i, visit);
    } else {
      const int busy = w.longer % units, idle = units - busy, place = unit < busy ? unit + idle : unit - busy;
      const int ahead = min(w.extra * idle, w.shorter);
      bool later = false;
      int i = unit;
#pragma unroll 1
      while (true) {
        if (!later && i >= w.longer) later = true, i = place < min(idle, ahead) ? place : ahead + place;
        if (later && i >= w.shorter) break;
        if (later == w.turned)
          visit_tile(w.first, i, visit);
        else
          visit_tile(w.second, i, visit);
        if (later && i < ahead)
          i = i + idle < ahead ? i + idle : ahead + place;
        else
          i += units;
      }
    }
  };

  if (group == 0) {
    fewer_registers<40>();
    if (threadIdx.x == 0) {
      each_tile([&](const auto& jobs, const auto& job, int row0, int col0, int begin, int end, int) {
        using E = typename std::decay_t<decltype(jobs)>::Epilogue;
#pragma unroll 1
        for (int step = begin; step < end; ++step) {
          wait_phase(empty + 8 * stage, phase ^ 1);
          const uint32_t to = base + stage * R::stage, to_b = to + R::bytes_a, ready = full + 8 * stage;
          const int second = step >= job.steps_each;
          const int k0 = (second ? step - job.steps_each : step) * 64;
          const CUtensorMap *a = &job.a[second], *b = &job.b[second];
          expect(ready, R::stage);
          if constexpr (std::decay_t<decltype(jobs)>::a_k_major) {
            copy_box<false>(to, a, ready, k0, row0);
          } else {
            for (int i = 0; i < 2; ++i) copy_box<false>(to + i * 8192, a, ready, row0 + 64 * i, k0);
          }
          // Of what a cluster shares, each block copies a part, to both.
          if constexpr (E::kPaired) {
            for (int i = 0; i < 2; ++i)
              if (!share || i == rank) copy_box<share>(to_b + i * Cols / 2 * 128, &job.b[i], ready, k0, col0);
          } else if constexpr (BK) {
            constexpr int part = Cols / CLUSTER;
            for (int i = 0; i < CLUSTER; ++i)
              if (!share || i == rank) copy_box<share>(to_b + i * part * 128, b, ready, k0, col0 + i * part);
          } else {
            constexpr int part = 64 / CLUSTER;
            for (int i = 0; i < CLUSTER; ++i)
              if (!share || i == rank)
                for (int j = 0; j < R::boxes; ++j)
                  copy_box<share>(to_b + j * 8192 + i * part * 128, b, ready, col0 + 64 * j, k0 + i * part);
          }
          next();
        }
      });
    } else if (warp >= 1 && warp <= helpers) {
//: part helper_sums_of_$SUMMED
          }
      });
    }
  } else {
    more_registers<232>();
    const int own = group - 1, g = lane / 4, t = lane % 4;
    // The second group begins a little later: while the first is busy with the end of a tile it has the tensor cores for
    // itself, and the other way round.
    if (own == 1 && w.lag) {
      wait_phase(full, 0);
      __nanosleep(w.lag);
    }
    each_tile([&](const auto& jobs, const auto& job, int row0, int col0, int begin, int end, int part) {
      using J = std::decay_t<decltype(jobs)>;
      using E = typename J::Epilogue;
      constexpr bool AK = J::a_k_major;
      const E& epilogue = job.epilogue;
      const int row = row0 + own * 64 + warp * 16 + g;
      // What the results need is asked for early.
      uint32_t added[E::kBias ? reach / 8 : 1];
      if constexpr (E::kBias) {
#pragma unroll
        for (int j = 0; j < reach / 8; ++j) added[j] = epilogue.added(col0 + 8 * j + 2 * t);
      }
      constexpr int deep = E::kWide ? 4 : 1;  // places whose values are on their way; place: half · reach / 32 + column / 32
      uint4 asked[deep][2];
      const int64_t corner = static_cast<int64_t>(row) * job.n + col0 + 8 * t;
      const auto inside = [&](int place) {
        return row + place / (reach / 32) * 8 < job.m && col0 + place % (reach / 32) * 32 + 8 * t < job.n;
      };
      const auto at_place = [&](int place) {
        return corner + (place < reach / 32 ? 0 : 8 * static_cast<int64_t>(job.n)) + place % (reach / 32) * 32;
      };
      const auto ask = [&](int place) {
        if constexpr (E::kWide)
          if (inside(place)) epilogue.ask(at_place(place), asked[place % deep]);
      };
      if constexpr (E::kWide) {
#pragma unroll
        for (int i = 0; i < deep; ++i) ask(i);
      }
      float sum[Cols / 2];
      int before = -1;
#pragma unroll 1
      for (int step = begin; step < end; ++step) {
        wait_phase(full + 8 * stage, phase);
        const uint32_t at = base + stage * R::stage;
        const uint64_t a = tile_at(at + own * 8192), b = tile_at(at + R::bytes_a);
        sums_ready();
#pragma unroll
        for (int k = 0; k < 4; ++k)  // 16 k's on: 32 bytes along a row, or 16 lines
          multiply_group<Cols, AK, BK, T>(sum, a + k * (AK ? 32 : 2048) / 16, b + k * (BK ? 32 : 2048) / 16,
                                          step > begin || k > 0);
        close_group();
        wait_groups<1>();  // the step before is done with its tile
        if (before >= 0) arrive(empty + 8 * before, lane);
        before = stage;
        next();
      }
      wait_groups<0>();
      if (before >= 0) arrive(empty + 8 * before, lane);

      if constexpr (IsPlain<E>::value) {
        if (epilogue.parts) {
#pragma unroll
          for (int i = 0; i < reach / 4; ++i)
            epilogue.put_part(row + i % 2 * 8, col0 + i / 2 * 8 + 2 * t, sum[2 * i], sum[2 * i + 1], part);
          return;
        }
      }
      // Two neighbouring results of a lane, as they are stored.
      const auto pair_at = [&](int j, int half) {
        float two[2] = {sum[4 * j + 2 * half], sum[4 * j + 2 * half + 1]};
        if constexpr (E::kPaired) epilogue.join(two, sum[4 * j + 2 * half + Cols / 4], sum[4 * j + 2 * half + Cols / 4 + 1]);
        if constexpr (E::kBias) epilogue.change(added[j], two);
        return packed<T>(two[0], two[1]);
      };
      if constexpr (E::kWide) {  // each lane gets eight neighbouring results
#pragma unroll
        for (int place = 0; place < reach / 16; ++place) {
          const int half = place / (reach / 32), j = place % (reach / 32) * 4;
          float eight[8];
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            uint32_t word[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) word[i] = __float_as_uint(sum[4 * (j + i) + 2 * half + e]);
            turn(word);
#pragma unroll
            for (int i = 0; i < 4; ++i) eight[2 * i + e] = __uint_as_float(word[i]);
          }
          if (inside(place)) epilogue.put_asked(at_place(place), eight, asked[place % deep]);
          if (place + deep < reach / 16) ask(place + deep);
        }
      } else if constexpr (STAGED) {
        const uint32_t room = sent + (own * 4 + warp) * R::buffers * R::out_box;
        const int line = lane % 16, chunk = lane / 16;
#pragma unroll
        for (int round = 0; round < R::rounds; ++round) {
          const uint32_t box = room + round % R::buffers * R::out_box;
          if (lane == 0) wait_sent<R::buffers - 1>();
          __syncwarp();
#pragma unroll
          for (int i = 0; i < R::out_cols / 16; ++i) {
            const int j = round * (R::out_cols / 8) + 2 * i, turned = R::out_cols == 64 ? line & 7 : line >> 1 & 3;
            store_matrices(box + line * R::out_cols * 2 + (((2 * i + chunk) ^ turned) << 4),
                           {pair_at(j, 0), pair_at(j, 1), pair_at(j + 1, 0), pair_at(j + 1, 1)});
          }
          asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
          __syncwarp();
          const int x = col0 + round * R::out_cols, y = row0 + own * 64 + warp * 16;
          if (lane == 0 && x < job.n && y < job.m) send_box(box, &job.out, x, y);
          if (lane == 0) end_sent();  // of a box outside too: the waits count rounds
        }
      } else {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
          for (int j = 0; j < reach / 8; j += 4) {
            uint32_t word[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) word[i] = pair_at(j + i, half);
            turn(word);
            const int64_t to = row + 8 * half, col = col0 + 8 * (j + t);
            if (to < job.m && col < job.n)
              *reinterpret_cast<uint4*>(epilogue.out + to * job.n + col) = make_uint4(word[0], word[1], word[2], word[3]);
          }
        }
      }
    });
    if (STAGED && lane == 0) wait_sent<0>();  // shared memory is read until then
  }
  if constexpr (CLUSTER > 1) meet();  // and written by the other block
}

// The map of an operand of `lines` lines of `length` elements, in boxes of `across` elements by `box` lines.
template <typename T>
CUtensorMap map_of(const T* at, int64_t length, int64_t lines, int box, int across = 64) {
  warpsmith::TiledMap kind;
  kind.data_type = std::is_same_v<T, at::Half> ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  kind.swizzle = across == 64 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B;
  kind.l2_promotion = CU_TENSOR_MAP_L2_PROMOTION_L2_256B;
  const uint64_t sizes[2] = {static_cast<uint64_t>(length), static_cast<uint64_t>(lines)};
  const uint64_t strides[1] = {static_cast<uint64_t>(length) * sizeof(T)};
  const uint32_t boxes[2] = {static_cast<uint32_t>(across), static_cast<uint32_t>(box)}, steps[2] = {1, 1};
  return warpsmith::encode_tiled(kind, 2, const_cast<T*>(at), sizes, strides, boxes, steps);
}

template <int Cols, bool AK, bool BK, typename T, typename E>
Job<E> job_of(Product<T> p, const E& epilogue, int parts) {
  constexpr int reach = E::kPaired ? Cols / 2 : Cols;
  Job<E> job = {};
  for (int i = 0; i < (E::kPaired ? 2 : p.pairs); ++i) {
    if (i == 0 || !E::kPaired) job.a[i] = AK ? map_of(p.a[i], p.k, p.m, 128) : map_of(p.a[i], p.m, p.k, 64);
    job.b[i] = BK ? map_of(p.b[i], p.k, p.n, E::kPaired ? reach : Cols / CLUSTER) : map_of(p.b[i], p.n, p.k, 64 / CLUSTER);
  }
  if constexpr (STAGED && !E::kWide)
    if (parts == 1) job.out = map_of(epilogue.out, p.n, p.m, 16, Ring<Cols, BK, reach>::out_cols);
  job.m = static_cast<int>(p.m), job.n = static_cast<int>(p.n);
  job.steps_each = static_cast<int>((p.k + 63) / 64);
  job.steps = job.steps_each * (E::kPaired ? 1 : p.pairs);
  job.parts = parts, job.part_steps = (job.steps + parts - 1) / parts;
  job.down = static_cast<int>((p.m + 128 * CLUSTER - 1) / (128 * CLUSTER));
  job.across = static_cast<int>((p.n + reach - 1) / reach);
  job.tiles = job.down * job.across;
  job.epilogue = epilogue;
  return job;
}

template <typename T, int Cols, bool BK, typename First, typename Second>
void launch_groups(const Work<First, Second>& work) {
  auto kernel = &product_groups<T, Cols, BK, First, Second>;
  constexpr int bytes = Ring<Cols, BK, First::Epilogue::kPaired ? Cols / 2 : Cols>::bytes;
  C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  cudaLaunchAttribute cluster;
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = CLUSTER;
  cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(std::min(work.longer + work.shorter, kUnits) * CLUSTER));
  config.blockDim = dim3(384);
  config.dynamicSmemBytes = bytes;
  config.stream = at::cuda::getCurrentCUDAStream();
  config.attrs = &cluster;
  config.numAttrs = CLUSTER > 1 ? 1 : 0;
  C10_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, work));
}

// What of STRATEGY 1 is shared by all shapes.
template <typename T, typename Epilogue>
bool groups_take(const Product<T>& p, const Epilogue& epilogue) {
  bool whole = whole_chunks(p) && p.n % 8 == 0;
  if constexpr (Epilogue::kWide || Epilogue::kBias) whole = whole && epilogue.whole;
  return whole;
}

// Sums so short that the ends of tiles matter.
inline int lag_of(int64_t steps) { return steps <= 24 ? LAG : 0; }

template <typename Call>
void with_width(int cols, const Call& call) {
  if (cols == 256)
    call(std::integral_constant<int, 256>());
  else
    call(std::integral_constant<int, MIDDLE>());
}

// A step of a tile of so many columns, in about 2 nanoseconds; and the time that a tile takes besides its steps, in steps.
inline double step_cost(int cols) { return cols + 40; }
constexpr int kTileCost = 4;

// What a sum in parts costs besides: the parts through memory, and a launch.
inline double parts_cost(int64_t m, int64_t n, int parts) {
  return parts == 1 ? 0.0 : 450.0 * (3.0 + static_cast<double>(m * n * parts) * 2e-6);
}

inline int whole_parts(int64_t steps, int parts) {  // no part is empty
  const int64_t each = (steps + parts - 1) / parts;
  return static_cast<int>((steps + each - 1) / each);
}

// Whether warp groups take it; then it is done.
template <bool AK, bool BK, typename T, typename Epilogue>
bool multiply_groups(const Product<T>& p, Epilogue epilogue, const torch::Tensor& like) {
  if (!groups_take(p, epilogue) || p.m * p.n * p.k < GROUP_STEPS) return false;
  const int64_t steps = (p.k + 63) / 64 * (Epilogue::kPaired ? 1 : p.pairs);
  int best = 256, best_parts = 1;
  if constexpr (!Epilogue::kPaired) {
    double least = 1e30;
    for (const int cols : {256, MIDDLE})
      for (int parts = 1; parts <= (IsPlain<Epilogue>::value ? 16 : 1) && (parts == 1 || steps / parts >= 8); ++parts) {
        if (WIDTH && cols != WIDTH) continue;
        const int64_t rounds = (tiles_of(p.m, p.n, 128 * CLUSTER, cols) * parts + kUnits - 1) / kUnits;
        const double cost = static_cast<double>(rounds * ((steps + parts - 1) / parts + kTileCost)) * step_cost(cols) +
                            parts_cost(p.m, p.n, parts);
        if (cost < least) least = cost, best = cols, best_parts = whole_parts(steps, parts);
      }
  }
  std::pair<torch::Tensor, torch::Tensor> room;
  if constexpr (IsPlain<Epilogue>::value)
    if (best_parts > 1) room = divide(epilogue, like, best_parts);
  const auto launch = [&](auto width) {
    constexpr int cols = decltype(width)::value;
    Work<Jobs<AK, Epilogue, 1>, NoJobs> work = {};
    work.first.job[0] = job_of<cols, AK, BK>(p, epilogue, best_parts);
    work.longer = work.first.job[0].tiles * best_parts;
    work.lag = lag_of(work.first.job[0].part_steps);
    launch_groups<T, cols, BK>(work);
  };
  if constexpr (Epilogue::kPaired)
    launch(std::integral_constant<int, 256>());
  else
    with_width(best, launch);
  if constexpr (IsPlain<Epilogue>::value)
    if (best_parts > 1) finish_parts<T>(epilogue, room.first, room.second, best_parts);
  return true;
}

//: part $JOINED
#endif


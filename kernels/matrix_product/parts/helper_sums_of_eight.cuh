      // Warps that would be idle: two add up the first operand over the sum's axis, or one
      // sees to it that what results need is in the L2.
      each_tile([&](const auto& jobs, const auto& job, int row0, int col0, int begin, int end, int part) {
        // Every column of tiles has the same first operand. Where there are two columns each sees to 64 m's, a warp to 32:
        // four lanes to a line, eight lines at once; else a warp to 64, eight lanes to a line.
        const bool two = job.across > 1, wanted = std::decay_t<decltype(jobs)>::sums && (!two || col0 < 2 * reach);
        const int box = two ? col0 > 0 : warp - 1, part_box = two ? warp - 1 : 0;
        const int line = two ? lane / 4 % 2 * 4 + lane / 8 : lane / 8, own_chunk = two ? part_box * 4 + lane % 4 : lane % 8;
        float total[8] = {};  // of eight neighbouring m's
#pragma unroll 1
        for (int step = begin; step < end; ++step) {
          wait_phase(full + 8 * stage, phase);
          if constexpr (std::decay_t<decltype(jobs)>::Epilogue::kWide)
            job.epilogue.template expect_tile<Cols>(row0, col0, step - begin, end - begin);
          if (wanted) {
            uint32_t at = base + stage * R::stage + box * 8192 + line * 128 + ((own_chunk ^ line) << 4);
            const uint32_t on = two ? 1024 : 512 + (((own_chunk ^ line ^ 4) << 4) - ((own_chunk ^ line) << 4));
#pragma unroll 2
            for (int k = 0; k < (two ? 4 : 8); ++k, at += two ? 2048 : 1024) {
              uint32_t word[8];
#pragma unroll
              for (int e = 0; e < 2; ++e)
                asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                             : "=r"(word[4 * e]), "=r"(word[4 * e + 1]), "=r"(word[4 * e + 2]), "=r"(word[4 * e + 3])
                             : "r"(e ? at + on : at));
#pragma unroll
              for (int e = 0; e < 8; ++e) {
                T pair[2];
                memcpy(pair, &word[e], 4);
                total[e % 4 * 2] += static_cast<float>(pair[0]), total[e % 4 * 2 + 1] += static_cast<float>(pair[1]);
              }
            }
          }
          __syncwarp();
          arrive(empty + 8 * stage, lane);
          next();
        }
        if constexpr (std::decay_t<decltype(jobs)>::sums)
          if (wanted) {
#pragma unroll
            for (int e = 0; e < 8; ++e) {
              total[e] += __shfl_xor_sync(~0u, total[e], 8);
              total[e] += __shfl_xor_sync(~0u, total[e], 16);
              if (two) total[e] += __shfl_xor_sync(~0u, total[e], 4);
              if (lane < (two ? 4 : 8)) job.epilogue.put_sum(row0 + box * 64 + 8 * own_chunk + e, total[e], part);
            }

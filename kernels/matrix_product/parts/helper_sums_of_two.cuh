      // Warps that would be idle: two add up the first operand over the sum's axis (a lane has two neighbouring m's), or
      // one sees to it that what results need is in the L2.
      each_tile([&](const auto& jobs, const auto& job, int row0, int col0, int begin, int end, int part) {
        // Every column of tiles has the same first operand: the warps take one each, if there are two.
        const bool wanted = std::decay_t<decltype(jobs)>::sums && col0 == (job.across > 1 ? (warp - 1) * reach : 0);
        float low = 0.0f, high = 0.0f;
#pragma unroll 1
        for (int step = begin; step < end; ++step) {
          wait_phase(full + 8 * stage, phase);
          if constexpr (std::decay_t<decltype(jobs)>::Epilogue::kWide)
            job.epilogue.template expect_tile<Cols>(row0, col0, step - begin, end - begin);
          if (wanted) {
            const uint32_t lines = base + stage * R::stage + (warp - 1) * 8192;
            float some_low = 0.0f, some_high = 0.0f;
#pragma unroll 8
            for (int k = 0; k < 64; ++k) {
              uint32_t word;
              asm volatile("ld.shared.u32 %0, [%1];"
                           : "=r"(word)
                           : "r"(lines + k * 128 + ((lane / 4 ^ (k & 7)) << 4) + lane % 4 * 4)
                           : "memory");
              T pair[2];
              memcpy(pair, &word, 4);
              some_low += static_cast<float>(pair[0]), some_high += static_cast<float>(pair[1]);
            }
            low += some_low, high += some_high;
          }
          __syncwarp();
          arrive(empty + 8 * stage, lane);
          next();
        }
        if constexpr (std::decay_t<decltype(jobs)>::sums)
          if (wanted) {
            const int64_t row = row0 + (warp - 1) * 64 + 2 * lane;
            job.epilogue.put_sum(row, low, part);
            job.epilogue.put_sum(row + 1, high, part);

#if JOINED
// How long Work takes: so many tiles of two kinds and what one of each costs.
inline int64_t time_of(int64_t longer, int64_t cost, int64_t shorter, int64_t other_cost) {
  const int64_t busy = longer % kUnits, idle = kUnits - busy, rounds = longer / kUnits;
  const int64_t extra = busy ? cost / other_cost : 0, ahead = std::min(extra * idle, shorter), rest = shorter - ahead;
  const int64_t others = rest / kUnits, left = rest % kUnits;
  const int64_t of_idle = rounds * cost + ((ahead + idle - 1) / idle + others + (left > 0)) * other_cost;
  const int64_t of_busy = (rounds + (busy > 0)) * cost + (others + (left > idle)) * other_cost;
  return std::max(of_idle, of_busy);
}

// One product and several others in one launch, if warp groups take them.
template <typename T, typename E, typename Other, int Count>
bool multiply_joined(const Product<T>& p, const E& epilogue, const Product<T> (&others)[Count], Other (&to)[Count],
                     const torch::Tensor& like) {
  bool taken = groups_take(p, epilogue) && p.m * p.n * p.k >= GROUP_STEPS;
  for (int i = 0; i < Count; ++i) taken = taken && groups_take(others[i], to[i]);
  if (!taken) return false;
  const int64_t steps = (p.k + 63) / 64 * p.pairs, other_steps = (others[0].k + 63) / 64;  // the same k for all others
  int best = 256, best_parts = 1;
  double least = 1e30;
  for (const int cols : {256, MIDDLE})
    for (int parts = 1; parts <= (Count == 1 ? 16 : 1) && (parts == 1 || other_steps / parts >= 8); ++parts) {
      if (WIDTH && cols != WIDTH) continue;
      int64_t tiles = tiles_of(p.m, p.n, 128 * CLUSTER, cols), other_tiles = 0;
      for (const auto& other : others) other_tiles += tiles_of(other.m, other.n, 128 * CLUSTER, cols) * parts;
      const int64_t cost = steps + kTileCost, other_cost = (other_steps + parts - 1) / parts + kTileCost;
      const int64_t time = cost >= other_cost ? time_of(tiles, cost, other_tiles, other_cost)
                                              : time_of(other_tiles, other_cost, tiles, cost);
      const double total = static_cast<double>(time) * step_cost(cols) + parts_cost(others[0].m, others[0].n, parts);
      if (total < least) least = total, best = cols, best_parts = whole_parts(other_steps, parts);
    }
  std::pair<torch::Tensor, torch::Tensor> room;
  if (best_parts > 1) room = divide(to[0], like, best_parts);
  with_width(best, [&](auto width) {
    constexpr int cols = decltype(width)::value;
    Work<Jobs<true, E, 1>, Jobs<false, Other, Count>> work = {};
    work.first.job[0] = job_of<cols, true, false>(p, epilogue, 1);
    const int tiles = work.first.job[0].tiles;
    int other_tiles = 0;
    for (int i = 0; i < Count; ++i) {
      work.second.job[i] = job_of<cols, false, false>(others[i], to[i], best_parts);
      other_tiles += work.second.job[i].tiles * best_parts;
    }
    const int cost = static_cast<int>(steps) + kTileCost, other_cost = work.second.job[0].part_steps + kTileCost;
    work.turned = other_cost > cost;
    work.longer = work.turned ? other_tiles : tiles, work.shorter = work.turned ? tiles : other_tiles;
    const bool even = work.longer % kUnits == 0;
    work.extra = even ? 0 : work.turned ? other_cost / cost : cost / other_cost;
    work.lag = lag_of(std::min(cost, other_cost) - kTileCost);
    launch_groups<T, cols, false>(work);
  });
  if (best_parts > 1) finish_parts<T>(to[0], room.first, room.second, best_parts);
  return true;
}
#endif

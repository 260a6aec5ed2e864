// The tile by the size of the product.
template <bool AK, bool BK, typename T, typename Epilogue>
void multiply(Product<T> p, Epilogue epilogue, const torch::Tensor& like) {
  if (p.pairs == 1 && !Epilogue::kPaired) p.a[1] = p.a[0], p.b[1] = p.b[0];
  if constexpr (sizeof(T) == 4)
    if (is_few(p)) return multiply_exactly<AK, BK>(p, epilogue);
//: part $GROUPS_FIRST
  if (!whole_chunks(p)) {
    launch_tiles<Small, AK, BK, false>(p, epilogue);
    return;
  }
  const int width = Epilogue::kPaired ? 2 : 1;
  const int64_t large = tiles_of(p.m, p.n, 128, 128 / width);
  const int64_t steps = (p.k * sizeof(T) + 127) / 128 * (Epilogue::kPaired ? 1 : p.pairs);
  // The large tile would be half empty at the edge of a narrow result.
  const int64_t edge = p.n * width % 128;
  const bool slim = sizeof(T) == 4 && (!WIDE || (edge > 0 && edge <= 64 && p.n * width < 1024));
  if constexpr (IsPlain<Epilogue>::value) {
    const int parts = large >= 4 * kProcessors ? 1 : parts_for(large, steps);
    if (large >= 4 && parts > 1 && large * parts >= BIG_TILES) {
      const auto room = divide(epilogue, like, parts);
      if (slim)
        launch_tiles<Slim, AK, BK, true>(p, epilogue, parts);
      else
        launch_tiles<Large, AK, BK, true>(p, epilogue, parts);
      finish_parts<T>(epilogue, room.first, room.second, parts);
      return;
    }
  }
  if (large < BIG_TILES)
    launch_tiles<Small, AK, BK, true>(p, epilogue);
  else if (slim)
    launch_tiles<Slim, AK, BK, true>(p, epilogue);
  else
    launch_tiles<Large, AK, BK, true>(p, epilogue);
}


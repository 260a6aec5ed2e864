#if STRATEGY == 1
  if constexpr ($BY_GROUPS)
    if (multiply_groups<AK, BK>(p, epilogue, like)) return;
#endif

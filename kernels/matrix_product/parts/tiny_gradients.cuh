// Both gradients of a small layer in one launch: blocks below `first` make grad_x, the others grad_weight and grad_bias.
template <bool Whole>
__global__ void __launch_bounds__(kTinyWarps * 32)
    tiny_gradients(const __grid_constant__ Product<float> by_x, const __grid_constant__ Plain<float> to_x,
                   const __grid_constant__ Product<float> by_weight,
                   const __grid_constant__ Plain<float, true> to_weight, int first) {
  if (blockIdx.x < first)
    tiny_tile<2, 8, true, false, Whole>(by_x, to_x, blockIdx.x, Open());
  else
    tiny_tile<2, 4, false, false, Whole>(by_weight, to_weight, blockIdx.x - first, Open());
}


// A tiled tensor map for TMA, made by the caller: an artifact has no way to the driver's entry points.
#pragma once

#include <cuda.h>

#include "torch/host.h"

namespace warpsmith {

struct TiledMap {
  CUtensorMapDataType data_type = CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  CUtensorMapInterleave interleave = CU_TENSOR_MAP_INTERLEAVE_NONE;
  CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;
  CUtensorMapL2promotion l2_promotion = CU_TENSOR_MAP_L2_PROMOTION_NONE;
  CUtensorMapFloatOOBfill out_of_bounds_fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
};

// The map of a tensor of `rank` axes, fastest first, as cuTensorMapEncodeTiled takes them.
inline CUtensorMap encode_tiled(TiledMap kind, unsigned rank, void* address, const uint64_t* sizes,
                                const uint64_t* strides_bytes, const uint32_t* box, const uint32_t* steps) {
  alignas(64) CUtensorMap map;
  const WsTiledMap wanted = {kind.data_type, rank,         address,           sizes,
                             strides_bytes,  box,          steps,             kind.interleave,
                             kind.swizzle,   kind.l2_promotion, kind.out_of_bounds_fill};
  TORCH_CHECK(host().encode_tensor_map, "encode_tiled: this device has no tensor maps (TMA)");
  const int status = host().encode_tensor_map(host().context, &map, &wanted);
  TORCH_CHECK(status == 0, "encode_tiled: the driver refused the tensor map, CUresult ", status);
  return map;
}

}  // namespace warpsmith

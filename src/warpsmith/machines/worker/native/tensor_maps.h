// Tensor maps (cuTensorMapEncodeTiled) for the candidate, encoded by the driver or by the stand-in runtime of the
// virtual GPU.
#pragma once

#include <dlfcn.h>

#include <cstdint>

#include "warpsmith/abi.h"

namespace worker {

using EncodeTiled = int (*)(void* map, int type, uint32_t rank, void* address, const uint64_t* sizes,
                            const uint64_t* strides, const uint32_t* box, const uint32_t* steps, int interleave,
                            int swizzle, int promotion, int fill);

// The stand-in comes first, because a machine with a driver may run the virtual GPU. Returns nullptr if neither is
// loaded.
inline EncodeTiled look_up_encoder() {
  if (void* own = dlsym(RTLD_DEFAULT, "cudaStandinTensorMapEncodeTiled")) return reinterpret_cast<EncodeTiled>(own);
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return driver ? reinterpret_cast<EncodeTiled>(dlsym(driver, "cuTensorMapEncodeTiled")) : nullptr;
}

inline EncodeTiled find_encoder() {
  static const EncodeTiled encoder = look_up_encoder();
  return encoder;
}

inline int encode(void* map, const WsTiledMap& wanted) {
  return find_encoder()(map, wanted.data_type, wanted.rank, wanted.address, wanted.sizes, wanted.strides_bytes,
                        wanted.box, wanted.steps, wanted.interleave, wanted.swizzle, wanted.l2_promotion,
                        wanted.out_of_bounds_fill);
}

}  // namespace worker

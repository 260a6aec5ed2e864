// Tensor maps: cuTensorMapEncodeTiled with the rules of the driver, in the virtual GPU's own format.
#include "tensor_map.h"

#include <cstring>

namespace {

constexpr int kInvalidValue = 1, kNotSupported = 801;
constexpr uint64_t kMostSize = uint64_t(1) << 32, kMostStride = uint64_t(1) << 40;
constexpr uint32_t kMostBox = 256;

// By CUtensorMapDataType. 0: types that are converted during the copy are not modelled.
constexpr uint8_t kElementBytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 0, 0, 0};
constexpr uint8_t kSwizzleBytes[] = {16, 32, 64, 128};  // by CUtensorMapSwizzle

bool fits(const vgpu::TensorMap& map, const uint64_t* sizes, const uint64_t* strides, const uint32_t* box) {
  if (map.address % 16 || uint64_t(box[0]) * map.element_bytes % 16) return false;
  if (map.swizzle_bytes > 16 && uint64_t(box[0]) * map.element_bytes > map.swizzle_bytes) return false;
  for (int i = 0; i < map.rank; ++i) {
    if (!sizes[i] || sizes[i] > kMostSize || !box[i] || box[i] > kMostBox) return false;
    if (i + 1 < map.rank && (strides[i] % 16 || strides[i] >= kMostStride)) return false;
  }
  return true;
}

}  // namespace

// It has another name than the driver's function: the worker looks this name up and finds it in the stand-in only.
extern "C" int cudaStandinTensorMapEncodeTiled(void* to, int type, uint32_t rank, void* address, const uint64_t* sizes,
                                               const uint64_t* strides, const uint32_t* box, const uint32_t* steps,
                                               int interleave, int swizzle, int, int fill) {
  if (!to || !sizes || !box || !steps || (rank > 1 && !strides)) return kInvalidValue;
  if (rank < 1 || rank > vgpu::kMostAxes) return kInvalidValue;
  if (type < 0 || type >= int(sizeof kElementBytes) || swizzle < 0) return kInvalidValue;
  if (!kElementBytes[type] || interleave || fill || swizzle >= int(sizeof kSwizzleBytes)) return kNotSupported;
  vgpu::TensorMap map;
  map.rank = uint8_t(rank);
  map.element_bytes = kElementBytes[type];
  map.swizzle_bytes = kSwizzleBytes[swizzle];
  map.address = reinterpret_cast<uint64_t>(address);
  if (!fits(map, sizes, strides, box)) return kInvalidValue;
  for (uint32_t i = 0; i < rank; ++i) {
    if (steps[i] != 1) return kNotSupported;
    map.last[i] = uint32_t(sizes[i] - 1);
    map.box[i] = uint16_t(box[i]);
    map.strides[i] = i ? strides[i - 1] : map.element_bytes;
  }
  std::memcpy(to, &map, sizeof map);
  return 0;
}

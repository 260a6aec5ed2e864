// Tensor maps of the virtual GPU: 128 bytes that the stand-in's encoder fills and that tensor copies read. The format
// differs from the one of NVIDIA's driver.
#pragma once

#include <cstdint>

namespace vgpu {

constexpr int kMostAxes = 5;

struct TensorMap {
  static constexpr uint32_t kMagic = 0x4d545357;  // "WSTM"
  uint32_t magic = kMagic;
  uint8_t rank = 1, element_bytes = 4, swizzle_bytes = 16, unused = 0;
  uint64_t address = 0;
  uint64_t strides[kMostAxes] = {};  // bytes from an element to the next; the first is the size of an element
  uint32_t last[kMostAxes] = {};     // largest coordinate of each axis
  uint16_t box[kMostAxes] = {};
  uint8_t spare[42] = {};
};
static_assert(sizeof(TensorMap) == 128);

}  // namespace vgpu

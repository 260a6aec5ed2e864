// Matrices of wgmma in shared memory: the matrix descriptor and the canonical layouts (PTX ISA, "Asynchronous Warpgroup
// Level Matrix Instructions", matrix descriptor format).
//
// The descriptor holds, in bits 0-13, 16-29 and 32-45, the start address, the leading dimension's byte offset (LBO) and
// the stride dimension's (SBO), all without their low four bits; in bits 49-51 the base offset; in bits 62-63 the
// swizzle: 0 none, 1 of 128, 2 of 64, 3 of 32 bytes. Everything is counted in chunks of 16 bytes along the major axis.
// With W the bytes of the swizzle (16 when there is none) a chunk lies at the start address plus
//
//   K-major, row r of M or N, chunk c of the two along K:
//     (r % 8) * W + (r / 8) * SBO + c * (swizzled ? 16 : LBO)
//   MN-major, chunk c along M or N, line k along K:
//     (c % (W/16)) * 16 + (c / (W/16)) * (swizzled ? LBO : SBO) + (k % 8) * W + (k / 8) * (swizzled ? SBO : LBO)
//
// and then the swizzle exchanges chunks inside 128-byte lines: bits 4, 4-5 or 4-6 of the address are XORed with bits 7,
// 7-8 or 7-9 of it, the lines being counted from the base offset. TMA swizzles the same bits.
#pragma once

#include <cstdint>

namespace vgpu {

// Returns the address with its 16-byte chunk exchanged; `width` is 16 (no swizzle), 32, 64 or 128 bytes.
inline uint32_t swizzled(uint32_t address, uint32_t width, uint32_t base_offset = 0) {
  uint32_t lines = width / 16 - 1;
  return address ^ (((address >> 7) - base_offset) & lines) << 4;
}

struct Descriptor {
  uint32_t start = 0, leading = 0, stride = 0, base_offset = 0, width = 16;

  explicit Descriptor(uint64_t bits) {
    auto bytes = [bits](int at) { return uint32_t(bits >> at & 0x3fff) << 4; };
    constexpr uint32_t widths[] = {16, 128, 64, 32};
    start = bytes(0);
    leading = bytes(16);
    stride = bytes(32);
    base_offset = uint32_t(bits >> 49 & 7);
    width = widths[bits >> 62];
  }

  bool is_swizzled() const { return width > 16; }

  uint32_t k_major(uint32_t row, uint32_t chunk) const {
    uint32_t at = row % 8 * width + row / 8 * stride + chunk * (is_swizzled() ? 16 : leading);
    return swizzled(start + at, width, base_offset);
  }

  uint32_t mn_major(uint32_t chunk, uint32_t line) const {
    uint32_t across = width / 16;
    uint32_t at = chunk % across * 16 + chunk / across * (is_swizzled() ? leading : stride);
    at += line % 8 * width + line / 8 * (is_swizzled() ? stride : leading);
    return swizzled(start + at, width, base_offset);
  }
};

}  // namespace vgpu

// Declarations that loads, stores and atomics share: the space of an address, and the split of a request by space.
#pragma once

#include "access.h"
#include "cluster.h"
#include "lower.h"

namespace vgpu {

struct AddressForm {
  ptx::Space space = ptx::Space::Generic;
  int32_t base = 0;
  int64_t imm = 0;
  uint8_t flags = 0;
};

// Reads the address operand and the space of the opcode. Returns false for an unsupported operand.
bool address_form(Lowering& lowering, const ptx::Operand& operand, AddressForm* form);
uint8_t strength_flags(const Lowering& lowering);
void note_narrow_shared(Lowering& lowering, ptx::Space space, uint32_t bytes);
Class class_of_space(ptx::Space space);

inline Strength strength_of(uint8_t flags) { return flags & kStrong ? Strength::Strong : Strength::Plain; }

// Calls visit(access) for the request in its space; a generic request is split by the spaces of its lanes.
template <class F>
void in_spaces(Warp& warp, const Inst& inst, Request& request, F visit) {
  ptx::Space space = ptx::Space(inst.c);
  Access access;
  access.mask = warp.mask;
  if (space != ptx::Space::Generic) {
    if (resolve(warp, inst, space, request, &access)) visit(access);
    return;
  }
  uint32_t left = warp.mask;
  Address original[32];
  std::memcpy(original, request.address, sizeof original);
  while (left) {
    int first = __builtin_ctz(left);
    space = generic_space(original[first]);
    uint32_t part = 0;
    each(left, [&](int lane) { part |= uint32_t(generic_space(original[lane]) == space) << lane; });
    Address window = space == ptx::Space::Shared  ? kSharedWindow
                     : space == ptx::Space::Local ? kLocalWindow
                     : space == ptx::Space::Param ? kParamWindow
                                                  : 0;
    for (int lane = 0; lane < 32; ++lane)
      request.address[lane] = (part >> lane & 1 ? original[lane] : original[first]) - window;
    access.mask = part;
    if (resolve(warp, inst, space, request, &access)) visit(access);
    left &= ~part;
  }
}

// Returns the key of a location for the race checker: shared memory of different blocks has different keys.
inline Address location(const Warp& warp, ptx::Space space, Address at) {
  if (space != ptx::Space::Shared) return at;
  const Block* owner = owner_of(warp, at);
  return (at & kSharedOffset) + (uint64_t((owner ? owner : warp.block)->linear) + 1) * kWindowBytes;
}
void after_strong_load(Warp& warp, ptx::Space space, const Request& request, uint32_t mask);
void after_release(Warp& warp);  // ends the segment that was released
void before_strong_store(Warp& warp, const Inst& inst, ptx::Space space, const Request& request, uint32_t mask);

}  // namespace vgpu

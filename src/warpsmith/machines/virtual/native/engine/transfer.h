// What loads, stores and atomics share: which space, and how a request goes lane by lane.
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

// The address operand and the space that the opcode names; false when it cannot be.
bool address_form(Lowering& l, const ptx::Operand& o, AddressForm* form);
uint8_t strength_flags(const Lowering& l);
void note_narrow_shared(Lowering& l, ptx::Space space, uint32_t bytes);
Class class_of_space(ptx::Space space);

inline Strength strength_of(uint8_t flags) { return flags & kStrong ? Strength::Strong : Strength::Plain; }

// Calls f(access) for the request in its space; a generic one is split by the spaces of its lanes.
template <class F>
void in_spaces(Warp& w, const Inst& inst, Request& r, F f) {
  ptx::Space space = ptx::Space(inst.c);
  Access access;
  access.mask = w.mask;
  if (space != ptx::Space::Generic) {
    if (resolve(w, inst, space, r, &access)) f(access);
    return;
  }
  uint32_t left = w.mask;
  Address original[32];
  std::memcpy(original, r.address, sizeof original);
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
      r.address[lane] = (part >> lane & 1 ? original[lane] : original[first]) - window;
    access.mask = part;
    if (resolve(w, inst, space, r, &access)) f(access);
    left &= ~part;
  }
}

// The name of a location for the race checker: shared memory of different blocks is different.
inline Address location(const Warp& w, ptx::Space space, Address at) {
  if (space != ptx::Space::Shared) return at;
  const Block* owner = owner_of(w, at);
  return (at & kSharedOffset) + (uint64_t((owner ? owner : w.block)->linear) + 1) * kWindowBytes;
}
void after_strong_load(Warp& w, ptx::Space space, const Request& r, uint32_t mask);
void after_release(Warp& w);  // the stretch that was released has ended
void before_strong_store(Warp& w, const Inst& inst, ptx::Space space, const Request& r, uint32_t mask);

}  // namespace vgpu

// ld and st, and the memory ordering of strong accesses and fences (PTX ISA, "Memory Consistency Model").
#include "transfer.h"

#include <algorithm>

#include "alu.h"

namespace vgpu {

using ptx::Operand;
using ptx::Space;

Class class_of_space(Space space) {
  return space == Space::Shared                           ? Class::Shared
         : space == Space::Local                          ? Class::Local
         : space == Space::Param || space == Space::Const ? Class::Param
                                                          : Class::Global;
}

bool address_form(Lowering& lowering, const Operand& operand, AddressForm* form) {
  if (operand.kind != Operand::Address) return false;
  form->space = lowering.has("global") ? Space::Global
                : lowering.has("shared") || lowering.has("shared::cta") || lowering.has("shared::cluster")
                    ? Space::Shared
                : lowering.has("local")                                                                ? Space::Local
                : lowering.has("const")                                                                ? Space::Const
                : lowering.has("param") || lowering.has("param::entry") || lowering.has("param::func") ? Space::Param
                                                                                                       : Space::Generic;
  form->imm = operand.offset;
  if (operand.reg >= 0) {
    int width = lowering.function->registers[size_t(operand.reg)].width;
    if (width != 4 && width != 8) return false;
    form->base = lowering.slots->place[size_t(operand.reg)];
    form->flags = width == 8 ? kWide : 0;
    return true;
  }
  form->flags = kNoBase;
  if (operand.name.empty()) return true;
  auto found = lowering.symbols->find(operand.name);
  if (found == lowering.symbols->end()) return false;
  form->imm += int64_t(found->second.address);
  if (form->space == Space::Param) form->space = found->second.space;  // parameters of a call lie in local memory
  if (form->space == Space::Generic) form->space = found->second.space;
  return true;
}

uint8_t strength_flags(const Lowering& lowering) {
  bool ordered = lowering.has("acquire") || lowering.has("release") || lowering.has("acq_rel");
  uint8_t flags = lowering.has("volatile") || lowering.has("relaxed") || lowering.has("mmio") || ordered ? kStrong : 0;
  if (ordered) flags |= kOrdered;
  if (lowering.has("cta")) flags |= kCtaScope;
  return flags;
}

void note_narrow_shared(Lowering& lowering, Space space, uint32_t bytes) {
  if (space == Space::Shared || space == Space::Generic)
    lowering.program.shared_shift = std::min(lowering.program.shared_shift, int(__builtin_ctz(std::min(bytes, 4u))));
}

void after_strong_load(Warp& warp, Space space, const Request& request, uint32_t mask) {
  // A strong load may be part of a spin loop. Its turn is shortened, so that the warp it waits for can run.
  warp.quantum -= 256;
  ++warp.spins;
  if (!warp.grid->check) return;
  each(mask, [&](int lane) { warp.grid->races->acquire(warp, location(warp, space, request.address[lane])); });
}

void before_strong_store(Warp& warp, const Inst& inst, Space space, const Request& request, uint32_t mask) {
  if (!warp.grid->check) return;
  bool ordered = inst.flags & kOrdered, cta = inst.flags & kCtaScope;
  if (!ordered && !warp.fenced_gpu && !warp.fenced_cta) return;
  uint32_t seen[32];
  bool gpu = (ordered && !cta) || warp.fenced_gpu;
  if (ordered) {
    std::copy(warp.seen, warp.seen + 32, seen);
  } else if (gpu) std::copy(warp.fence_gpu, warp.fence_gpu + 32, seen);
  else std::copy(warp.fence_cta, warp.fence_cta + 32, seen);
  seen[warp.index] = warp.clock;  // the release covers the releasing access itself
  each(mask, [&](int lane) {
    bool outside = space != Space::Shared || warp.grid->clustered;
    warp.grid->races->release(warp, location(warp, space, request.address[lane]), gpu && outside, seen);
  });
  warp.released = true;
}

void after_release(Warp& warp) {
  if (!warp.released) return;
  warp.released = false;
  ++warp.clock;
  warp.segment = 0;
  warp.cached_stamp = 0;
}

namespace {

template <class M, class R, int V>
void read_lanes(Warp& warp, const Inst& inst, const Access& access) {
  if (access.shape == Shape::Contiguous) {
    const M* from = reinterpret_cast<const M*>(access.base);
    for (int element = 0; element < V; ++element) {
      R* __restrict d = out<R>(warp, inst.extra[element]);
#pragma GCC ivdep
      for (int i = 0; i < 32; ++i) d[i] = R(from[i * V + element]);
    }
    return;
  }
  if (access.shape == Shape::Uniform && access.mask == UINT32_MAX) {
    for (int element = 0; element < V; ++element) {
      M value;
      std::memcpy(&value, access.base + sizeof(M) * size_t(element), sizeof value);
      R* d = out<R>(warp, inst.extra[element]);
      for (int i = 0; i < 32; ++i) d[i] = R(value);
    }
    return;
  }
  const int64_t* delta = access.delta;
  const uint8_t* base = access.base;
  if (access.mask == UINT32_MAX) {
    for (int element = 0; element < V; ++element) {
      R* __restrict d = out<R>(warp, inst.extra[element]);
#pragma GCC ivdep
      for (int i = 0; i < 32; ++i) d[i] = R(*reinterpret_cast<const M*>(base + delta[i] + sizeof(M) * size_t(element)));
    }
    return;
  }
  for (int element = 0; element < V; ++element) {
    R* d = out<R>(warp, inst.extra[element]);
    each(access.mask,
         [&](int i) { d[i] = R(*reinterpret_cast<const M*>(base + delta[i] + sizeof(M) * size_t(element))); });
  }
}

template <class M, class R, int V>
void load(Warp& warp, const Inst& inst) {
  Request request;
  request.bytes = sizeof(M) * V;
  request.strength = strength_of(inst.flags);
  compute_addresses(warp, inst, &request);
  uint32_t asked = warp.mask, served = 0;
  in_spaces(warp, inst, request, [&](const Access& access) {
    read_lanes<M, R, V>(warp, inst, access);
    served |= access.mask;
    if (inst.flags & kStrong) after_strong_load(warp, access.space, request, access.mask);
  });
  if (served != asked)
    for (int element = 0; element < V; ++element)
      each(asked & ~served, [&](int i) { out<R>(warp, inst.extra[element])[i] = 0; });
}

// Returns the racing lanes whose bytes differ from those in memory. Two stores of equal bytes are not reported.
template <class M, class R, int V>
uint32_t differing(const Warp& warp, const Inst& inst, const Access& access) {
  uint32_t differ = 0;
  each(access.suspects & access.mask, [&](int i) {
    for (int element = 0; element < V; ++element) {
      M is, will = M(in<R>(warp, inst.extra[element])[i]);
      std::memcpy(&is, access.base + access.delta[i] + sizeof(M) * size_t(element), sizeof is);
      if (is != will) differ |= 1u << i;
    }
  });
  return differ;
}

// Returns the lanes that store other bytes than an earlier lane with the same address. PTX leaves unspecified which
// store is performed last.
template <class M, class R, int V>
uint32_t disagreeing(const Warp& warp, const Inst& inst, const Access& access) {
  uint32_t differ = 0;
  each(access.mask, [&](int i) {
    each(access.mask & ((1u << i) - 1), [&](int j) {
      if (access.delta[i] != access.delta[j]) return;
      for (int element = 0; element < V; ++element)
        if (M(in<R>(warp, inst.extra[element])[i]) != M(in<R>(warp, inst.extra[element])[j])) differ |= 1u << i;
    });
  });
  return differ;
}

template <class M, class R, int V>
void check_races(Warp& warp, const Inst& inst, Access& access, const Request& request) {
  if (access.suspects)
    if (uint32_t differ = differing<M, R, V>(warp, inst, access))
      report_write_race(warp, inst, access, request, differ);
  bool shadowed = access.space == Space::Shared || access.space == Space::Global;
  if (!shadowed || request.strength != Strength::Plain || !inst.memo->duplicates || inst.memo->mask != access.mask)
    return;
  if (uint32_t differ = disagreeing<M, R, V>(warp, inst, access)) {
    access.prior = 0;
    report_write_race(warp, inst, access, request, differ);
  }
}

template <class M, class R, int V>
void write_lanes(Warp& warp, const Inst& inst, const Access& access) {
  if (access.shape == Shape::Contiguous) {
    M* to = reinterpret_cast<M*>(access.base);
    for (int element = 0; element < V; ++element) {
      const R* source = in<R>(warp, inst.extra[element]);
#pragma GCC ivdep
      for (int i = 0; i < 32; ++i) to[i * V + element] = M(source[i]);
    }
    return;
  }
  for (int element = 0; element < V; ++element) {
    const R* source = in<R>(warp, inst.extra[element]);
    each(access.mask, [&](int i) {
      *reinterpret_cast<M*>(access.base + access.delta[i] + sizeof(M) * size_t(element)) = M(source[i]);
    });
  }
}

template <class M, class R, int V>
void store(Warp& warp, const Inst& inst) {
  Request request;
  request.bytes = sizeof(M) * V;
  request.write = true;
  request.strength = strength_of(inst.flags);
  compute_addresses(warp, inst, &request);
  in_spaces(warp, inst, request, [&](Access& access) {
    if (warp.grid->check) check_races<M, R, V>(warp, inst, access, request);
    write_lanes<M, R, V>(warp, inst, access);
    if (inst.flags & kStrong) before_strong_store(warp, inst, access.space, request, access.mask);
  });
  after_release(warp);
}

// Loads a parameter of the entry at a constant offset: the value is the same for all threads.
template <class M, class R>
void load_param(Warp& warp, const Inst& inst) {
  for (int element = 0; element < inst.count; ++element) {
    M value;
    std::memcpy(&value, warp.grid->parameters + inst.imm + int64_t(sizeof(M)) * element, sizeof value);
    R result = R(value);
    lanes<R>(warp, inst.extra[element], [result](int) { return result; });
  }
}

struct Forms {
  Handler load[3], store[3], param;
};

template <class M, class R>
Forms forms() {
  using S = std::make_unsigned_t<M>;
  using T = std::make_unsigned_t<R>;
  return {{load<M, R, 1>, load<M, R, 2>, load<M, R, 4>},
          {store<S, T, 1>, store<S, T, 2>, store<S, T, 4>},
          load_param<M, R>};
}

// Selects handlers by the type in memory and the width of the registers, which may be wider.
bool find_forms(const std::string& type, int width, Forms* chosen) {
  bool is_signed = type[0] == 's';
  switch (type_bytes(type) * 10 + width) {
    case 12: *chosen = is_signed ? forms<int8_t, int16_t>() : forms<uint8_t, uint16_t>(); return true;
    case 14: *chosen = is_signed ? forms<int8_t, int32_t>() : forms<uint8_t, uint32_t>(); return true;
    case 18: *chosen = is_signed ? forms<int8_t, int64_t>() : forms<uint8_t, uint64_t>(); return true;
    case 22: *chosen = forms<uint16_t, uint16_t>(); return true;
    case 24: *chosen = is_signed ? forms<int16_t, int32_t>() : forms<uint16_t, uint32_t>(); return true;
    case 28: *chosen = is_signed ? forms<int16_t, int64_t>() : forms<uint16_t, uint64_t>(); return true;
    case 44: *chosen = forms<uint32_t, uint32_t>(); return true;
    case 48: *chosen = is_signed ? forms<int32_t, int64_t>() : forms<uint32_t, uint64_t>(); return true;
    case 88: *chosen = forms<uint64_t, uint64_t>(); return true;
    default: return false;
  }
}

int vector_length(const Lowering& lowering) {
  return lowering.has("v2") ? 2 : lowering.has("v4") ? 4 : lowering.has("v8") ? 8 : 1;
}

// Returns the width of the registers of an access, which is that of its first register.
int access_width(const Lowering& lowering, const Operand& operand, const std::string& type) {
  int width = type_width(type);
  const Operand* first = &operand;
  for (const Operand& part : operand.parts)
    if (part.kind == Operand::Reg) {
      first = &part;
      break;
    }
  int have = lowering.register_width(*first);
  return have > width ? have : width;
}

bool lower_ld(Lowering& lowering) {
  if (lowering.operands() < 2) return false;
  std::string type = lowering.type();
  int count = vector_length(lowering), width = access_width(lowering, lowering.operand(0), type);
  AddressForm form;
  Forms forms;
  if (count > 4 || type.empty() || !address_form(lowering, lowering.operand(1), &form) ||
      !find_forms(type, width, &forms))
    return false;
  lowering.kind = class_of_space(form.space);
  uint32_t bytes = uint32_t(type_bytes(type) * count);
  size_t passed = lowering.program.parameter_bytes;
  bool known =
      form.space == Space::Param && (form.flags & kNoBase) && bytes <= passed && uint64_t(form.imm) <= passed - bytes;
  const Operand& operand = lowering.operand(0);
  int32_t d[4] = {};
  if (count > 1 && operand.parts.size() != size_t(count)) return false;
  for (int element = 0; element < count; ++element)
    d[element] =
        lowering.target(count == 1 && operand.kind != Operand::Vector ? operand : operand.parts[size_t(element)], width,
                        type[0] == 's');
  Inst& inst = lowering.emit(known ? forms.param : forms.load[count == 4 ? 2 : count - 1]);
  for (int element = 0; element < count; ++element) inst.extra[element] = d[element];
  inst.count = uint8_t(count);
  inst.a = form.base;
  inst.imm = form.imm;
  inst.c = int32_t(form.space);
  inst.flags = uint8_t(form.flags | (lowering.has("nc") ? 0 : strength_flags(lowering)));
  inst.bytes = uint8_t(bytes);
  inst.memo = lowering.memo();
  note_narrow_shared(lowering, form.space, bytes);
  return true;
}

bool lower_st(Lowering& lowering) {
  if (lowering.operands() < 2) return false;
  std::string type = lowering.type();
  int count = vector_length(lowering), width = access_width(lowering, lowering.operand(1), type);
  AddressForm form;
  Forms forms;
  if (count > 4 || type.empty() || lowering.has("async") || !address_form(lowering, lowering.operand(0), &form) ||
      !find_forms(type, width, &forms))
    return false;
  lowering.kind = class_of_space(form.space);
  const Operand& operand = lowering.operand(1);
  int32_t source[4] = {};
  if (count > 1 && operand.parts.size() != size_t(count)) return false;
  for (int element = 0; element < count; ++element)
    source[element] = lowering.source(
        count == 1 && operand.kind != Operand::Vector ? operand : operand.parts[size_t(element)], width, type[0]);
  uint32_t bytes = uint32_t(type_bytes(type) * count);
  Inst& inst = lowering.emit(forms.store[count == 4 ? 2 : count - 1]);
  for (int element = 0; element < count; ++element) inst.extra[element] = source[element];
  inst.count = uint8_t(count);
  inst.a = form.base;
  inst.imm = form.imm;
  inst.c = int32_t(form.space);
  inst.flags = uint8_t(form.flags | strength_flags(lowering));
  inst.bytes = uint8_t(bytes);
  inst.memo = lowering.memo();
  note_narrow_shared(lowering, form.space, bytes);
  return true;
}

// A fence makes the current clocks the ones that a later strong store releases (release pattern: fence, then strong
// store).
void fence(Warp& warp, const Inst& inst) {
  if (!warp.grid->check) return;
  uint32_t before = warp.seen[warp.index];
  warp.seen[warp.index] = warp.clock;
  std::copy(warp.seen, warp.seen + 32, inst.imm ? warp.fence_gpu : warp.fence_cta);
  (inst.imm ? warp.fenced_gpu : warp.fenced_cta) = true;
  if (inst.imm) {
    std::copy(warp.seen, warp.seen + 32, warp.fence_cta);
    warp.fenced_cta = true;
  }
  warp.seen[warp.index] = before;  // a fence does not order the lanes of the warp among themselves
  ++warp.clock;
  warp.segment = 0;
  warp.cached_stamp = 0;
}

bool lower_fence(Lowering& lowering) {
  lowering.kind = Class::Sync;
  bool cta = lowering.has("cta") && !lowering.has("gl");
  Inst& inst = lowering.emit(fence);
  inst.imm = cta ? 0 : 1;
  return true;
}

}  // namespace

const LowerEntry kMemoryOps[] = {
    {"ld", lower_ld},  {"ldu", lower_ld}, {"st", lower_st}, {"membar", lower_fence, "*"}, {"fence", lower_fence, "*"},
    {nullptr, nullptr}};

}  // namespace vgpu

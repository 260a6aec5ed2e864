// ld and st.
#include "transfer.h"

#include <algorithm>

#include "alu.h"

namespace vgpu {

using ptx::Operand;
using ptx::Space;

Class class_of_space(Space s) {
  return s == Space::Shared                       ? Class::Shared
         : s == Space::Local                      ? Class::Local
         : s == Space::Param || s == Space::Const ? Class::Param
                                                  : Class::Global;
}

bool address_form(Lowering& l, const Operand& o, AddressForm* f) {
  if (o.kind != Operand::Address) return false;
  f->space = l.has("global")                                                       ? Space::Global
             : l.has("shared") || l.has("shared::cta") || l.has("shared::cluster") ? Space::Shared
             : l.has("local")                                                      ? Space::Local
             : l.has("const")                                                      ? Space::Const
             : l.has("param") || l.has("param::entry") || l.has("param::func")     ? Space::Param
                                                                                   : Space::Generic;
  f->imm = o.offset;
  if (o.reg >= 0) {
    int width = l.function->registers[size_t(o.reg)].width;
    if (width != 4 && width != 8) return false;
    f->base = l.slots->place[size_t(o.reg)];
    f->flags = width == 8 ? kWide : 0;
    return true;
  }
  f->flags = kNoBase;
  if (o.name.empty()) return true;
  auto found = l.symbols->find(o.name);
  if (found == l.symbols->end()) return false;
  f->imm += int64_t(found->second.address);
  if (f->space == Space::Param) f->space = found->second.space;  // a call's parameters lie in local memory
  if (f->space == Space::Generic) f->space = found->second.space;
  return true;
}

uint8_t strength_flags(const Lowering& l) {
  bool ordered = l.has("acquire") || l.has("release") || l.has("acq_rel");
  uint8_t flags = l.has("volatile") || l.has("relaxed") || l.has("mmio") || ordered ? kStrong : 0;
  if (ordered) flags |= kOrdered;
  if (l.has("cta")) flags |= kCtaScope;
  return flags;
}

void note_narrow_shared(Lowering& l, Space space, uint32_t bytes) {
  if (space == Space::Shared || space == Space::Generic)
    l.program.shared_shift = std::min(l.program.shared_shift, int(__builtin_ctz(std::min(bytes, 4u))));
}

void after_strong_load(Warp& w, Space space, const Request& r, uint32_t mask) {
  // A strong load may be a spin: its turn is shorter, so that whoever it waits for can run.
  w.quantum -= 256;
  ++w.spins;
  if (!w.grid->check) return;
  each(mask, [&](int lane) { w.grid->races->acquire(w, location(w, space, r.address[lane])); });
}

void before_strong_store(Warp& w, const Inst& inst, Space space, const Request& r, uint32_t mask) {
  if (!w.grid->check) return;
  bool ordered = inst.flags & kOrdered, cta = inst.flags & kCtaScope;
  if (!ordered && !w.fenced_gpu && !w.fenced_cta) return;
  uint32_t seen[32];
  bool gpu = (ordered && !cta) || w.fenced_gpu;
  if (ordered) {
    std::copy(w.seen, w.seen + 32, seen);
  } else if (gpu) std::copy(w.fence_gpu, w.fence_gpu + 32, seen);
  else std::copy(w.fence_cta, w.fence_cta + 32, seen);
  seen[w.index] = w.clock;  // the releasing access itself is released
  each(mask, [&](int lane) {
    bool outside = space != Space::Shared || w.grid->clustered;
    w.grid->races->release(w, location(w, space, r.address[lane]), gpu && outside, seen);
  });
  w.released = true;
}

void after_release(Warp& w) {
  if (!w.released) return;
  w.released = false;
  ++w.clock;
  w.segment = 0;
  w.judged_stamp = 0;
}

namespace {

template <class M, class R, int V>
void take(Warp& w, const Inst& inst, const Access& access) {
  if (access.shape == Shape::Contiguous) {
    const M* from = reinterpret_cast<const M*>(access.base);
    for (int v = 0; v < V; ++v) {
      R* __restrict d = out<R>(w, inst.v[v]);
#pragma GCC ivdep
      for (int i = 0; i < 32; ++i) d[i] = R(from[i * V + v]);
    }
    return;
  }
  if (access.shape == Shape::Uniform && access.mask == UINT32_MAX) {
    for (int v = 0; v < V; ++v) {
      M value;
      std::memcpy(&value, access.base + sizeof(M) * size_t(v), sizeof value);
      R* d = out<R>(w, inst.v[v]);
      for (int i = 0; i < 32; ++i) d[i] = R(value);
    }
    return;
  }
  const int64_t* delta = access.delta;
  const uint8_t* base = access.base;
  if (access.mask == UINT32_MAX) {
    for (int v = 0; v < V; ++v) {
      R* __restrict d = out<R>(w, inst.v[v]);
#pragma GCC ivdep
      for (int i = 0; i < 32; ++i) d[i] = R(*reinterpret_cast<const M*>(base + delta[i] + sizeof(M) * size_t(v)));
    }
    return;
  }
  for (int v = 0; v < V; ++v) {
    R* d = out<R>(w, inst.v[v]);
    each(access.mask, [&](int i) { d[i] = R(*reinterpret_cast<const M*>(base + delta[i] + sizeof(M) * size_t(v))); });
  }
}

template <class M, class R, int V>
void load(Warp& w, const Inst& inst) {
  Request r;
  r.bytes = sizeof(M) * V;
  r.strength = strength_of(inst.flags);
  addresses(w, inst, &r);
  uint32_t asked = w.mask, got = 0;
  in_spaces(w, inst, r, [&](const Access& access) {
    take<M, R, V>(w, inst, access);
    got |= access.mask;
    if (inst.flags & kStrong) after_strong_load(w, access.space, r, access.mask);
  });
  if (got != asked)
    for (int v = 0; v < V; ++v) each(asked & ~got, [&](int i) { out<R>(w, inst.v[v])[i] = 0; });
}

// Of the lanes that race: those whose bytes differ from what is there.
template <class M, class R, int V>
uint32_t differing(const Warp& w, const Inst& inst, const Access& access) {
  uint32_t differ = 0;
  each(access.suspects & access.mask, [&](int i) {
    for (int v = 0; v < V; ++v) {
      M is, will = M(in<R>(w, inst.v[v])[i]);
      std::memcpy(&is, access.base + access.delta[i] + sizeof(M) * size_t(v), sizeof is);
      if (is != will) differ |= 1u << i;
    }
  });
  return differ;
}

// Of the lanes that name one address: those that store something else than the first of them.
template <class M, class R, int V>
uint32_t disagreeing(const Warp& w, const Inst& inst, const Access& access) {
  uint32_t differ = 0;
  each(access.mask, [&](int i) {
    each(access.mask & ((1u << i) - 1), [&](int j) {
      if (access.delta[i] != access.delta[j]) return;
      for (int v = 0; v < V; ++v)
        if (M(in<R>(w, inst.v[v])[i]) != M(in<R>(w, inst.v[v])[j])) differ |= 1u << i;
    });
  });
  return differ;
}

template <class M, class R, int V>
void check_races(Warp& w, const Inst& inst, Access& access, const Request& r) {
  if (access.suspects)
    if (uint32_t differ = differing<M, R, V>(w, inst, access)) accuse(w, inst, access, r, differ);
  bool shadowed = access.space == Space::Shared || access.space == Space::Global;
  if (!shadowed || r.strength != Strength::Plain || !inst.memo->duplicates || inst.memo->mask != access.mask) return;
  if (uint32_t differ = disagreeing<M, R, V>(w, inst, access)) {
    access.prior = 0;
    accuse(w, inst, access, r, differ);
  }
}

template <class M, class R, int V>
void put(Warp& w, const Inst& inst, const Access& access) {
  if (access.shape == Shape::Contiguous) {
    M* to = reinterpret_cast<M*>(access.base);
    for (int v = 0; v < V; ++v) {
      const R* s = in<R>(w, inst.v[v]);
#pragma GCC ivdep
      for (int i = 0; i < 32; ++i) to[i * V + v] = M(s[i]);
    }
    return;
  }
  for (int v = 0; v < V; ++v) {
    const R* s = in<R>(w, inst.v[v]);
    each(access.mask,
         [&](int i) { *reinterpret_cast<M*>(access.base + access.delta[i] + sizeof(M) * size_t(v)) = M(s[i]); });
  }
}

template <class M, class R, int V>
void store(Warp& w, const Inst& inst) {
  Request r;
  r.bytes = sizeof(M) * V;
  r.write = true;
  r.strength = strength_of(inst.flags);
  addresses(w, inst, &r);
  in_spaces(w, inst, r, [&](Access& access) {
    if (w.grid->check) check_races<M, R, V>(w, inst, access, r);
    put<M, R, V>(w, inst, access);
    if (inst.flags & kStrong) before_strong_store(w, inst, access.space, r, access.mask);
  });
  after_release(w);
}

// A parameter of the entry at a known place: the same for every thread.
template <class M, class R>
void load_param(Warp& w, const Inst& inst) {
  for (int v = 0; v < inst.n; ++v) {
    M value;
    std::memcpy(&value, w.grid->parameters + inst.imm + int64_t(sizeof(M)) * v, sizeof value);
    R r = R(value);
    lanes<R>(w, inst.v[v], [r](int) { return r; });
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

// By the type in memory and the width of the registers, which may be wider.
bool find_forms(const std::string& t, int width, Forms* f) {
  bool s = t[0] == 's';
  switch (type_bytes(t) * 10 + width) {
    case 12: *f = s ? forms<int8_t, int16_t>() : forms<uint8_t, uint16_t>(); return true;
    case 14: *f = s ? forms<int8_t, int32_t>() : forms<uint8_t, uint32_t>(); return true;
    case 18: *f = s ? forms<int8_t, int64_t>() : forms<uint8_t, uint64_t>(); return true;
    case 22: *f = forms<uint16_t, uint16_t>(); return true;
    case 24: *f = s ? forms<int16_t, int32_t>() : forms<uint16_t, uint32_t>(); return true;
    case 28: *f = s ? forms<int16_t, int64_t>() : forms<uint16_t, uint64_t>(); return true;
    case 44: *f = forms<uint32_t, uint32_t>(); return true;
    case 48: *f = s ? forms<int32_t, int64_t>() : forms<uint32_t, uint64_t>(); return true;
    case 88: *f = forms<uint64_t, uint64_t>(); return true;
    default: return false;
  }
}

int vector_length(const Lowering& l) { return l.has("v2") ? 2 : l.has("v4") ? 4 : l.has("v8") ? 8 : 1; }

// The width of the registers of an access: that of the first register among them.
int access_width(const Lowering& l, const Operand& o, const std::string& t) {
  int width = type_width(t);
  const Operand* first = &o;
  for (const Operand& part : o.parts)
    if (part.kind == Operand::Reg) {
      first = &part;
      break;
    }
  int have = l.register_width(*first);
  return have > width ? have : width;
}

bool lower_ld(Lowering& l) {
  if (l.operands() < 2) return false;
  std::string t = l.type();
  int n = vector_length(l), width = access_width(l, l.operand(0), t);
  AddressForm a;
  Forms f;
  if (n > 4 || t.empty() || !address_form(l, l.operand(1), &a) || !find_forms(t, width, &f)) return false;
  l.kind = class_of_space(a.space);
  uint32_t bytes = uint32_t(type_bytes(t) * n);
  size_t passed = l.program.parameter_bytes;
  bool known = a.space == Space::Param && (a.flags & kNoBase) && bytes <= passed && uint64_t(a.imm) <= passed - bytes;
  const Operand& o = l.operand(0);
  int32_t d[4] = {};
  if (n > 1 && o.parts.size() != size_t(n)) return false;
  for (int v = 0; v < n; ++v)
    d[v] = l.target(n == 1 && o.kind != Operand::Vector ? o : o.parts[size_t(v)], width, t[0] == 's');
  Inst& i = l.emit(known ? f.param : f.load[n == 4 ? 2 : n - 1]);
  for (int v = 0; v < n; ++v) i.v[v] = d[v];
  i.n = uint8_t(n);
  i.a = a.base;
  i.imm = a.imm;
  i.c = int32_t(a.space);
  i.flags = uint8_t(a.flags | (l.has("nc") ? 0 : strength_flags(l)));
  i.bytes = uint8_t(bytes);
  i.memo = l.memo();
  note_narrow_shared(l, a.space, bytes);
  return true;
}

bool lower_st(Lowering& l) {
  if (l.operands() < 2) return false;
  std::string t = l.type();
  int n = vector_length(l), width = access_width(l, l.operand(1), t);
  AddressForm a;
  Forms f;
  if (n > 4 || t.empty() || l.has("async") || !address_form(l, l.operand(0), &a) || !find_forms(t, width, &f))
    return false;
  l.kind = class_of_space(a.space);
  const Operand& o = l.operand(1);
  int32_t s[4] = {};
  if (n > 1 && o.parts.size() != size_t(n)) return false;
  for (int v = 0; v < n; ++v)
    s[v] = l.source(n == 1 && o.kind != Operand::Vector ? o : o.parts[size_t(v)], width, t[0]);
  uint32_t bytes = uint32_t(type_bytes(t) * n);
  Inst& i = l.emit(f.store[n == 4 ? 2 : n - 1]);
  for (int v = 0; v < n; ++v) i.v[v] = s[v];
  i.n = uint8_t(n);
  i.a = a.base;
  i.imm = a.imm;
  i.c = int32_t(a.space);
  i.flags = uint8_t(a.flags | strength_flags(l));
  i.bytes = uint8_t(bytes);
  i.memo = l.memo();
  note_narrow_shared(l, a.space, bytes);
  return true;
}

// Fences: what the warp knows now is what a later strong store releases.
void fence(Warp& w, const Inst& inst) {
  if (!w.grid->check) return;
  uint32_t before = w.seen[w.index];
  w.seen[w.index] = w.clock;
  std::copy(w.seen, w.seen + 32, inst.imm ? w.fence_gpu : w.fence_cta);
  (inst.imm ? w.fenced_gpu : w.fenced_cta) = true;
  if (inst.imm) {
    std::copy(w.seen, w.seen + 32, w.fence_cta);
    w.fenced_cta = true;
  }
  w.seen[w.index] = before;  // a fence orders no lane after another
  ++w.clock;
  w.segment = 0;
  w.judged_stamp = 0;
}

bool lower_fence(Lowering& l) {
  l.kind = Class::Sync;
  bool cta = l.has("cta") && !l.has("gl");
  Inst& i = l.emit(fence);
  i.imm = cta ? 0 : 1;
  return true;
}

}  // namespace

const LowerEntry kMemoryOps[] = {
    {"ld", lower_ld},  {"ldu", lower_ld}, {"st", lower_st}, {"membar", lower_fence, "*"}, {"fence", lower_fence, "*"},
    {nullptr, nullptr}};

}  // namespace vgpu

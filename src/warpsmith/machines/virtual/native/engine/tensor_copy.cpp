// Copies of boxes of a tensor (TMA) between global and shared memory, described by a tensor map. Those to shared memory
// arrive at once.
//
// The box lies in shared memory row after row, the first axis contiguous, each 16-byte chunk exchanged by the map's
// swizzle (descriptor.h). Elements outside the tensor are zeros when they are read, and not written.
#include <algorithm>

#include "../executor/tensor_map.h"
#include "async.h"
#include "control.h"
#include "descriptor.h"
#include "sends.h"
#include "transfer.h"

namespace vgpu {

namespace {

// Fields: a the map's address, b its offset; v[0] shared address, v[1..5] coordinates, v[6] where the count of bytes
// goes, v[7] the mask of blocks that a copy goes to or kNoLane; n axes; flags: to shared memory; bytes: the width of
// the shared address; memo, table: memos of both sides.
struct Box {
  const TensorMap& map;
  int64_t corner[kMostAxes] = {};
  uint32_t row_bytes() const { return uint32_t(map.box[0]) * map.element_bytes; }
  uint32_t rows() const {
    uint32_t n = 1;
    for (int i = 1; i < map.rank; ++i) n *= map.box[i];
    return n;
  }
  // Bytes that lie wholly inside or wholly outside the tensor, and are aligned in both memories.
  uint32_t unit() const {
    uint64_t bits = uint64_t(corner[0]) * map.element_bytes | (uint64_t(map.last[0]) + 1) * map.element_bytes | 16;
    return uint32_t(bits & (0 - bits));
  }
  // Where the row begins in global memory; false when it lies outside.
  bool row(uint32_t number, uint64_t* at) const {
    *at = map.address;
    for (int i = 1; i < map.rank; ++i) {
      int64_t c = corner[i] + number % map.box[i];
      number /= map.box[i];
      if (c < 0 || c > int64_t(map.last[i])) return false;
      *at += uint64_t(c) * map.strides[i];
    }
    return true;
  }
};

void refuse_map(Warp& w, const Inst& i, int lane, Address at, const std::string& why) {
  report(w, i, lane, {"out_of_bounds", at, sizeof(TensorMap), "global", true},
         [&] { return "takes a tensor map at " + hex(at) + ", " + why; });
}

bool read_map(Warp& w, const Inst& i, int lane, TensorMap* map) {
  Address at = in<uint64_t>(w, i.a)[lane] + Address(int64_t(i.b));
  const Grid& g = *w.grid;
  bool param = generic_space(at) == ptx::Space::Param;
  Address offset = at - kParamWindow;
  const uint8_t* from = nullptr;
  if (param && offset + sizeof *map <= g.parameter_bytes) from = g.parameters + offset;
  if (!param && g.memory->holder(at, sizeof *map)) from = g.memory->host(at);
  if (!from) return refuse_map(w, i, lane, at, "where there is none"), false;
  if (at % 64) return refuse_map(w, i, lane, at, "which is not a multiple of 64"), false;
  std::memcpy(map, from, sizeof *map);
  if (map->magic != TensorMap::kMagic) return refuse_map(w, i, lane, at, "which no encoder has filled"), false;
  if (map->rank != i.n)
    return refuse_map(w, i, lane, at,
                      "of " + std::to_string(map->rank) + " axes, by an instruction for " + std::to_string(i.n)),
           false;
  return true;
}

// One lane's access of `bytes` bytes; nullptr when it may not be.
uint8_t* touch(Warp& w, const Inst& i, ptx::Space space, Address at, uint32_t bytes, bool write) {
  Request r;
  r.bytes = bytes;
  r.write = write;
  std::fill(r.address, r.address + 32, at);
  Access access;
  access.mask = w.mask;
  if (!resolve(w, i, space, r, &access)) return nullptr;
  if (access.suspects) accuse(w, i, access, r, access.suspects);
  return access.base + access.delta[__builtin_ctz(w.mask)];
}

// Between global memory and the places in shared memory that are given: more than one for a copy to several blocks.
void copy_box(Warp& w, const Inst& i, const Box& box, const std::vector<Address>& places) {
  Inst global = i;
  global.memo = static_cast<Memo*>(const_cast<void*>(i.table));
  uint32_t unit = box.unit(), row_bytes = box.row_bytes();
  int64_t first = box.corner[0] * box.map.element_bytes, end = (int64_t(box.map.last[0]) + 1) * box.map.element_bytes;
  for (uint32_t row = 0; row < box.rows(); ++row) {
    uint64_t base = 0;
    bool inside_row = box.row(row, &base);
    for (uint32_t at = 0; at < row_bytes && !w.grid->stop; at += unit) {
      int64_t along = first + at;
      bool inside = inside_row && along >= 0 && along < end;
      if (!inside && !i.flags) continue;
      uint8_t* far = inside ? touch(w, global, ptx::Space::Global, base + uint64_t(along), unit, !i.flags) : nullptr;
      if (inside && !far) return;
      for (Address shared : places) {
        Address here = swizzled(uint32_t(shared) + row * row_bytes + at, box.map.swizzle_bytes);
        uint8_t* near = touch(w, i, ptx::Space::Shared, here, unit, i.flags);
        if (!near) return;
        if (!inside) std::memset(near, 0, unit);
        else if (i.flags) std::memcpy(near, far, unit);
        else send(w, i, __builtin_ctz(w.mask), {far, near, here, uint8_t(unit)});
      }
    }
  }
}

bool aligned(Warp& w, const Inst& i, int lane, Address shared) {
  if (shared % 128 == 0) return true;
  report(w, i, lane, {"misaligned", shared, 128, "shared", true}, [&] {
    return "copies a box of a tensor to or from shared memory at " + hex(shared) + ", which is not a multiple of 128";
  });
  return false;
}

// The copy engine moves 16 bytes at a time from where the box begins in its row; a GPU stops with an illegal
// instruction.
bool begins_evenly(Warp& w, const Inst& i, int lane, const Box& box) {
  int64_t along = box.corner[0] * box.map.element_bytes;
  if (along % 16 == 0) return true;
  report(w, i, lane, {"misaligned", box.map.address + uint64_t(along), 16, "global", true}, [&] {
    return "copies a box that begins " + std::to_string(along) + " bytes into its row, which is not a multiple of 16";
  });
  return false;
}

// A box that is read may begin before the tensor and has zeros there; one that is written may only end behind it.
bool begins_inside(Warp& w, const Inst& i, int lane, const Box& box) {
  int axis = 0;
  while (axis < box.map.rank && box.corner[axis] >= 0) ++axis;
  if (i.flags || axis == box.map.rank) return true;
  report(w, i, lane, {"out_of_bounds", box.map.address, box.row_bytes(), "global", true}, [&] {
    return "writes a box that begins at " + std::to_string(box.corner[axis]) + " on axis " + std::to_string(axis) +
           " of its tensor";
  });
  return false;
}

// The same place in each block that the mask names; the one place without a mask.
std::vector<Address> places_of(Warp& w, const Inst& i, int lane, Address shared) {
  if (i.v[7] == kNoLane) return {shared};
  std::vector<Address> found;
  for (uint32_t rank = 0; rank < 16; ++rank)
    if (in<uint16_t>(w, i.v[7])[lane] >> rank & 1) found.push_back(in_block(w, shared, rank));
  return found;
}

void tensor_copy(Warp& w, const Inst& i) {
  uint32_t mask = w.mask;
  each(mask, [&](int lane) {
    TensorMap map;
    Address shared = i.bytes == 8 ? in<uint64_t>(w, i.v[0])[lane] : in<uint32_t>(w, i.v[0])[lane];
    if (shared >= kSharedWindow) shared -= kSharedWindow;
    if (w.grid->stop || !read_map(w, i, lane, &map) || !aligned(w, i, lane, shared)) return;
    Box box{map, {}};
    for (int k = 0; k < map.rank; ++k) box.corner[k] = in<int32_t>(w, i.v[1 + k])[lane];
    if (!begins_evenly(w, i, lane, box) || !begins_inside(w, i, lane, box)) return;
    set_mask(w, 1u << lane);
    copy_box(w, i, box, places_of(w, i, lane, shared));
    if (i.flags) out<uint32_t>(w, i.v[6])[lane] = box.rows() * box.row_bytes();
  });
  set_mask(w, mask);
}

int axes(const Lowering& l) {
  for (int n = 1; n <= kMostAxes; ++n)
    if (l.has(std::to_string(n) + "d")) return n;
  return 0;
}

}  // namespace

bool lower_tensor_copy(Lowering& l) {
  bool in = l.has("global") && l.has_prefix("shared::") && l.has_prefix("mbarrier::complete_tx");
  bool out = !in && l.has("bulk_group");
  bool many = l.has_prefix("multicast");
  if ((!in && !out) || (many && !in) || l.has_prefix("im2col") || l.has_prefix("tile::") || l.has_prefix("cta_group"))
    return false;
  const ptx::Operand &shared = l.operand(in ? 0 : 1), &map = l.operand(in ? 1 : 0);
  int n = axes(l);
  bool plain = shared.kind == ptx::Operand::Address && shared.reg >= 0 && !shared.offset;
  bool named = map.kind == ptx::Operand::Address && map.reg >= 0 && map.parts.size() == 1;
  if (!n || !plain || !named || map.parts[0].parts.size() != size_t(n)) return false;
  auto width = [&](const ptx::Operand& o) { return l.function->registers[size_t(o.reg)].width; };
  if (width(map) != 8) return false;
  Inst copy;
  copy.fn = tensor_copy;
  copy.a = l.slots->place[size_t(map.reg)];
  copy.b = int32_t(map.offset);
  copy.v[0] = l.slots->place[size_t(shared.reg)];
  copy.bytes = width(shared);
  for (int k = 0; k < n; ++k) copy.v[1 + k] = l.source(map.parts[0].parts[size_t(k)], 4);
  copy.v[6] = l.temporary(4);
  copy.v[7] = many ? l.source(l.operand(3), 2) : kNoLane;
  copy.n = uint8_t(n);
  copy.flags = in;
  copy.memo = l.memo();
  copy.table = l.memo();
  note_narrow_shared(l, ptx::Space::Shared, 2);
  l.emit(tensor_copy) = copy;
  return !in || lower_completion(l, l.operand(2), copy.v[6], copy.v[7]);
}

}  // namespace vgpu

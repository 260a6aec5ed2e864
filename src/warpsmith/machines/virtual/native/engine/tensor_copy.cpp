// Copies of boxes of a tensor between global and shared memory (PTX ISA, cp.async.bulk.tensor, which TMA executes),
// described by a tensor map. Copies to shared memory arrive at once.
//
// A box lies in shared memory row after row, with the first axis contiguous. Its 16-byte chunks are exchanged by the
// swizzle of the map (descriptor.h). Elements outside the tensor are read as zeros and not written.
#include <algorithm>

#include "../executor/tensor_map.h"
#include "async.h"
#include "control.h"
#include "descriptor.h"
#include "sends.h"
#include "transfer.h"

namespace vgpu {

namespace {

// Fields: a is the address of the map, b its offset; extra[0] is the shared address, extra[1..5] are the coordinates,
// extra[6] is the place of the byte count, extra[7] the mask of target blocks or kNoLane; count is the number of axes;
// flags is 1 for a copy to shared memory; bytes is the width of the shared address; memo and table are the memos of
// both sides.
struct Box {
  const TensorMap& map;
  int64_t corner[kMostAxes] = {};
  uint32_t row_bytes() const { return uint32_t(map.box[0]) * map.element_bytes; }
  uint32_t rows() const {
    uint32_t count = 1;
    for (int i = 1; i < map.rank; ++i) count *= map.box[i];
    return count;
  }
  // Returns the largest power of two at most 16 that divides the positions of the box and of the tensor's end. Pieces
  // of this size lie wholly inside or wholly outside the tensor.
  uint32_t unit() const {
    uint64_t bits = uint64_t(corner[0]) * map.element_bytes | (uint64_t(map.last[0]) + 1) * map.element_bytes | 16;
    return uint32_t(bits & (0 - bits));
  }
  // Computes the global address of a row. Returns false if the row is outside the tensor.
  bool row(uint32_t number, uint64_t* at) const {
    *at = map.address;
    for (int i = 1; i < map.rank; ++i) {
      int64_t coordinate = corner[i] + number % map.box[i];
      number /= map.box[i];
      if (coordinate < 0 || coordinate > int64_t(map.last[i])) return false;
      *at += uint64_t(coordinate) * map.strides[i];
    }
    return true;
  }
};

// Reports a tensor map that the copy cannot use. Returns false, the result of the caller.
bool refuse_map(Warp& warp, const Inst& inst, int lane, Address at, const std::string& why) {
  report(warp, inst, lane, {"out_of_bounds", at, sizeof(TensorMap), "global", true},
         [&] { return "takes a tensor map at " + hex(at) + ", " + why; });
  return false;
}

bool read_map(Warp& warp, const Inst& inst, int lane, TensorMap* map) {
  Address at = in<uint64_t>(warp, inst.a)[lane] + Address(int64_t(inst.b));
  const Grid& grid = *warp.grid;
  bool param = generic_space(at) == ptx::Space::Param;
  Address offset = at - kParamWindow;
  const uint8_t* from = nullptr;
  if (param && offset + sizeof *map <= grid.parameter_bytes) from = grid.parameters + offset;
  if (!param && grid.memory->holder(at, sizeof *map)) from = grid.memory->host(at);
  if (!from) return refuse_map(warp, inst, lane, at, "where there is none");
  if (at % 64) return refuse_map(warp, inst, lane, at, "which is not a multiple of 64");
  std::memcpy(map, from, sizeof *map);
  if (map->magic != TensorMap::kMagic) return refuse_map(warp, inst, lane, at, "which no encoder has filled");
  if (map->rank != inst.count)
    return refuse_map(warp, inst, lane, at,
                      "of " + std::to_string(map->rank) + " axes, by an instruction for " + std::to_string(inst.count));
  return true;
}

// Accesses `bytes` bytes for one lane. Returns nullptr if the access is not allowed.
uint8_t* touch(Warp& warp, const Inst& inst, ptx::Space space, Address at, uint32_t bytes, bool write) {
  Request request;
  request.bytes = bytes;
  request.write = write;
  std::fill(request.address, request.address + 32, at);
  Access access;
  access.mask = warp.mask;
  if (!resolve(warp, inst, space, request, &access)) return nullptr;
  if (access.suspects) report_write_race(warp, inst, access, request, access.suspects);
  return access.base + access.delta[__builtin_ctz(warp.mask)];
}

// Copies between global memory and one or more places in shared memory; a multicast has several.
void copy_box(Warp& warp, const Inst& inst, const Box& box, const std::vector<Address>& places) {
  Inst global = inst;
  global.memo = static_cast<Memo*>(const_cast<void*>(inst.table));
  uint32_t unit = box.unit(), row_bytes = box.row_bytes();
  int64_t first = box.corner[0] * box.map.element_bytes, end = (int64_t(box.map.last[0]) + 1) * box.map.element_bytes;
  for (uint32_t row = 0; row < box.rows(); ++row) {
    uint64_t base = 0;
    bool inside_row = box.row(row, &base);
    for (uint32_t at = 0; at < row_bytes && !warp.grid->stop; at += unit) {
      int64_t along = first + at;
      bool inside = inside_row && along >= 0 && along < end;
      if (!inside && !inst.flags) continue;
      uint8_t* far =
          inside ? touch(warp, global, ptx::Space::Global, base + uint64_t(along), unit, !inst.flags) : nullptr;
      if (inside && !far) return;
      for (Address shared : places) {
        Address here = swizzled(uint32_t(shared) + row * row_bytes + at, box.map.swizzle_bytes);
        uint8_t* near = touch(warp, inst, ptx::Space::Shared, here, unit, inst.flags);
        if (!near) return;
        if (!inside) std::memset(near, 0, unit);
        else if (inst.flags) std::memcpy(near, far, unit);
        else queue_send(warp, inst, __builtin_ctz(warp.mask), {far, near, here, uint8_t(unit)});
      }
    }
  }
}

bool aligned(Warp& warp, const Inst& inst, int lane, Address shared) {
  if (shared % 128 == 0) return true;
  report(warp, inst, lane, {"misaligned", shared, 128, "shared", true}, [&] {
    return "copies a box of a tensor to or from shared memory at " + hex(shared) + ", which is not a multiple of 128";
  });
  return false;
}

// TMA moves 16 bytes at a time from the beginning of a box row. On a GPU a row that begins elsewhere is an illegal
// instruction.
bool begins_evenly(Warp& warp, const Inst& inst, int lane, const Box& box) {
  int64_t along = box.corner[0] * box.map.element_bytes;
  if (along % 16 == 0) return true;
  report(warp, inst, lane, {"misaligned", box.map.address + uint64_t(along), 16, "global", true}, [&] {
    return "copies a box that begins " + std::to_string(along) + " bytes into its row, which is not a multiple of 16";
  });
  return false;
}

// A box that is read may begin before the tensor and has zeros there. A box that is written may only end after the
// tensor.
bool begins_inside(Warp& warp, const Inst& inst, int lane, const Box& box) {
  int axis = 0;
  while (axis < box.map.rank && box.corner[axis] >= 0) ++axis;
  if (inst.flags || axis == box.map.rank) return true;
  report(warp, inst, lane, {"out_of_bounds", box.map.address, box.row_bytes(), "global", true}, [&] {
    return "writes a box that begins at " + std::to_string(box.corner[axis]) + " on axis " + std::to_string(axis) +
           " of its tensor";
  });
  return false;
}

// Returns the address in each block of the mask; without a mask the address itself.
std::vector<Address> places_of(Warp& warp, const Inst& inst, int lane, Address shared) {
  if (inst.extra[7] == kNoLane) return {shared};
  std::vector<Address> found;
  for (uint32_t rank = 0; rank < 16; ++rank)
    if (in<uint16_t>(warp, inst.extra[7])[lane] >> rank & 1) found.push_back(in_block(warp, shared, rank));
  return found;
}

void tensor_copy(Warp& warp, const Inst& inst) {
  uint32_t mask = warp.mask;
  each(mask, [&](int lane) {
    TensorMap map;
    Address shared =
        inst.bytes == 8 ? in<uint64_t>(warp, inst.extra[0])[lane] : in<uint32_t>(warp, inst.extra[0])[lane];
    if (shared >= kSharedWindow) shared -= kSharedWindow;
    if (warp.grid->stop || !read_map(warp, inst, lane, &map) || !aligned(warp, inst, lane, shared)) return;
    Box box{map, {}};
    for (int k = 0; k < map.rank; ++k) box.corner[k] = in<int32_t>(warp, inst.extra[1 + k])[lane];
    if (!begins_evenly(warp, inst, lane, box) || !begins_inside(warp, inst, lane, box)) return;
    set_mask(warp, 1u << lane);
    copy_box(warp, inst, box, places_of(warp, inst, lane, shared));
    if (inst.flags) out<uint32_t>(warp, inst.extra[6])[lane] = box.rows() * box.row_bytes();
  });
  set_mask(warp, mask);
}

int axes(const Lowering& lowering) {
  for (int n = 1; n <= kMostAxes; ++n)
    if (lowering.has(std::to_string(n) + "d")) return n;
  return 0;
}

}  // namespace

bool lower_tensor_copy(Lowering& lowering) {
  bool in = lowering.has("global") && lowering.has_prefix("shared::") && lowering.has_prefix("mbarrier::complete_tx");
  bool out = !in && lowering.has("bulk_group");
  bool many = lowering.has_prefix("multicast");
  if ((!in && !out) || (many && !in) || lowering.has_prefix("im2col") || lowering.has_prefix("tile::") ||
      lowering.has_prefix("cta_group"))
    return false;
  const ptx::Operand &shared = lowering.operand(in ? 0 : 1), &map = lowering.operand(in ? 1 : 0);
  int axis_count = axes(lowering);
  bool plain = shared.kind == ptx::Operand::Address && shared.reg >= 0 && !shared.offset;
  bool named = map.kind == ptx::Operand::Address && map.reg >= 0 && map.parts.size() == 1;
  if (!axis_count || !plain || !named || map.parts[0].parts.size() != size_t(axis_count)) return false;
  auto width = [&](const ptx::Operand& operand) { return lowering.function->registers[size_t(operand.reg)].width; };
  if (width(map) != 8) return false;
  Inst copy;
  copy.fn = tensor_copy;
  copy.a = lowering.slots->place[size_t(map.reg)];
  copy.b = int32_t(map.offset);
  copy.extra[0] = lowering.slots->place[size_t(shared.reg)];
  copy.bytes = width(shared);
  for (int k = 0; k < axis_count; ++k) copy.extra[1 + k] = lowering.source(map.parts[0].parts[size_t(k)], 4);
  copy.extra[6] = lowering.temporary(4);
  copy.extra[7] = many ? lowering.source(lowering.operand(3), 2) : kNoLane;
  copy.count = uint8_t(axis_count);
  copy.flags = in;
  copy.memo = lowering.memo();
  copy.table = lowering.memo();
  note_narrow_shared(lowering, ptx::Space::Shared, 2);
  lowering.emit(tensor_copy) = copy;
  return !in || lower_completion(lowering, lowering.operand(2), copy.extra[6], copy.extra[7]);
}

}  // namespace vgpu
